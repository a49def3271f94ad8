"""A table in its formats: links to runs, empty cells, text that LaTeX can set."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from canned import Canned, glue, result
from rich.console import Console

from spikelm.report.tables.build import build_table
from spikelm.report.tables.cells import TableData, mark
from spikelm.report.tables.formats import as_json, comma_separated, latex, latex_text, markdown, show_table, write_table
from spikelm.report.tables.paper_table import load_table


@pytest.fixture
def data(tmp_path: Path) -> TableData:
    known = glue("lif_bert", 42, 50.0, 59.0)
    known["lif_bert", "pretrain", 42] = result("pretrain", {"loss": 1.0}, 0.5)
    table = load_table(3)
    table = replace(table, rows=[row for row in table.rows if row.system in ("lif_bert", "lif_bert_atan")])
    return build_table(table, Canned(known, tmp_path))


def test_markdown_links_every_cell_to_its_run(data: TableData) -> None:
    lines = [line for line in markdown(data).splitlines() if line.startswith("|")]
    original, printed = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:4])
    assert original[2:] == [""] * 12, "LIF-BERT* was not run"
    assert printed[1:4] == ["paper", "–", "4"]
    assert printed[-1] == "34.6ᵃ", "the misprint has its footnote"
    ours = [cell.strip() for cell in lines[5].split("|")[1:-1]]
    assert ours[0] == "LIF-BERT"
    run = data.lines[1].cells["rte"].runs[0]
    assert ours[-2] == f"[50.0](../{run[1]}/result.json)"
    assert ours[-1] == "[51.0](#runs)", "a mean of several runs goes to the list of them"
    assert f"glue-rte [{run[0][:8]}](../{run[1]}/result.json)" in markdown(data).partition("## Runs")[2]
    assert "scale=smoke, source=embedded, seed 42" in markdown(data)


def test_csv_and_json_leave_what_is_missing_empty(data: TableData) -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(data))))
    cells = {(row["row"], row["column"]): row for row in rows}
    assert (cells["LIF-BERT*", "rte"]["ours"], cells["LIF-BERT*", "rte"]["paper"]) == ("", "52.7")
    there = cells["LIF-BERT", "rte"]
    assert (there["ours"], there["paper"]) == ("50.0", "53.8")
    assert float(there["difference"]) == pytest.approx(-3.8)
    assert {row["scale"] for row in rows} == {"smoke"}
    lines = json.loads(as_json(data))["lines"]
    assert lines[0]["cells"]["rte"]["ours"] is None
    assert lines[0]["cells"]["rte"]["paper_printed"] == "52.7"


def test_the_terminal_shows_all_three_lines_of_a_row(data: TableData) -> None:
    console = Console(width=240, record=True, file=io.StringIO())
    show_table(data, console)
    text = console.export_text()
    assert re.search(r"LIF-BERT\s+│ ours\s.*51\.0", text)
    assert re.search(r"paper\s.*54\.9", text)
    assert re.search(r"difference\s.*−3\.9", text)
    assert "a: The paper prints 34.6; its 9 entries average 33.99." in text


def test_files_of_every_format_are_written(data: TableData, tmp_path: Path) -> None:
    paths = write_table(data, tmp_path)
    assert [path.name for path in paths] == [f"table3-smoke-embedded.{end}" for end in ("md", "tex", "csv", "json")]
    assert all(path.stat().st_size for path in paths)


def test_text_for_latex_has_no_commands_left() -> None:
    assert latex_text("50%±1 & a_b") == r"50\%$\pm$1 \& a\_b"
    assert latex_text("{-alpha,0,alpha}") == r"\{$-\alpha$,0,$\alpha$\}"
    assert latex_text("alpha alone stays a word") == "alpha alone stays a word"
    assert mark((0, 2)) == "ᵃ,ᶜ"


def test_latex_has_booktabs_rules_and_as_many_cells_as_columns(data: TableData) -> None:
    text = latex(data)
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 6
    assert all(len(re.split(r"(?<!\\)&", row)) == 2 + len(data.columns) for row in rows)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
@pytest.mark.parametrize("id", range(1, 10))
def test_latex_compiles(id: int, tmp_path: Path) -> None:
    known = glue("lif_bert", 42, 50.0, 59.0)
    known["lif_bert", "pretrain", 42] = result("pretrain", {"loss": 1.0}, 0.5)
    source = tmp_path / "table.tex"
    source.write_text(latex(build_table(load_table(id), Canned(known, tmp_path))))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search("Overfull|Float too large", done.stdout)
