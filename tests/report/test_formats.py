"""A table in its formats: links to runs, empty cells, text that LaTeX can set."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from canned import Canned, glue, result
from rich.console import Console

from spikelm.report.tables.build import build_table
from spikelm.report.tables.cells import Cell, TableData, cell_dict, mark
from spikelm.report.tables.formats import as_json, comma_separated, latex, latex_text, markdown, show_table, write_table
from spikelm.report.tables.paper_table import TABLES, load_table


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
    assert re.search(r"LIF-BERT\s+ours\s.*51\.0", text)
    assert re.search(r"paper\s.*54\.9", text)
    assert re.search(r"difference\s.*−3\.9", text)
    assert "a: The paper prints 34.6; its 9 entries average 33.99." in text


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., TableData]:
    """BERT and three spiking systems of table 3 on RTE and SST-2, with T, energies and a mean."""

    def build(ours_only: bool = False, scale: str = "smoke") -> TableData:
        scores = {
            "bert": (90.0, 80.0),
            "lif_bert": (50.04, 60.0),
            "spikelm_t1": (50.01, 70.1),
            "spikelm_t4": (40.0, 7.3),
        }
        energies = {"bert": 4.0, "lif_bert": 0.0003, "spikelm_t1": 0.0002, "spikelm_t4": 0.5}
        known = {}
        for system, (rte, sst2) in scores.items():
            rate = None if system == "bert" else 0.25
            known[system, "glue/rte", 42] = result("glue/rte", {"accuracy": rte}, energies[system], rate)
            known[system, "glue/sst2", 42] = result("glue/sst2", {"accuracy": sst2}, energies[system], rate)
            known[system, "pretrain", 42] = result("pretrain", {"loss": 1.0}, energies[system], rate)
        store = Canned(known, tmp_path)
        store.selection = replace(store.selection, scale=scale)
        table = load_table(3).only(["glue/rte", "glue/sst2"])
        rows = [row for row in table.rows if row.system in (*scores, "psn_bert")]
        return build_table(replace(table, rows=rows), store, ours_only)

    return build


def test_the_best_of_a_column_is_marked_ties_alike_and_the_plain_model_is_no_rival(
    compared: Callable[..., TableData],
) -> None:
    data = compared()
    best = {name: [line.system for line in data.lines if line.cells[name].best] for name in data.columns}
    assert best["rte"] == ["lif_bert", "spikelm_t1"], "50.0 both, as they are printed; BERT has 90"
    assert best["sst2"] == ["spikelm_t1"]
    assert best["energy_fp32"] == ["spikelm_t1"], "the lowest"
    assert best["T"] == [], "a setting, not a score"
    marked = next(line for line in data.lines if line.system == "spikelm_t1")
    assert f"**[70.1](../{marked.cells['sst2'].runs[0][1]}/result.json)**" in markdown(data)
    assert r"\textbf{70.1}" in latex(data)
    assert latex(data).count(r"\textbf") == sum(map(len, best.values()))
    rows = csv.DictReader(io.StringIO(comma_separated(data)))
    assert {(row["system"], row["column"]) for row in rows if row["best"]} == {
        (system, name) for name, systems in best.items() for system in systems
    }
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    show_table(data, console)
    assert "\x1b[1m70.1" in console.export_text(styles=True, clear=False)
    assert "Bold is the best of a column" in console.export_text()
    piped = Console(width=200, file=io.StringIO())
    show_table(data, piped)
    text = piped.file.getvalue()  # type: ignore[attr-defined]
    assert text.count(" *") == 1 + sum(map(len, best.values())), "each once, and in the note"
    assert "*70.1" in text
    assert "A number after * is the best of a column" in text


def test_one_system_alone_is_not_the_best(data: TableData) -> None:
    assert not any(cell.best for line in data.lines for cell in line.cells.values())
    assert "Bold" not in markdown(data)


def test_energies_of_models_of_another_size_are_not_compared(compared: Callable[..., TableData]) -> None:
    small, full = compared(), compared(scale="paper")
    ours, as_large = (next(one.cells for one in data.lines if one.system == "lif_bert") for data in (small, full))
    assert (ours["energy_fp32"].difference_text, ours["rte"].difference_text) == ("", "−3.8")
    assert as_large["energy_fp32"].difference_text == "−7.98"
    said = "Energies have no difference: the paper's are of BERT_base and BART_base"
    assert (said in markdown(small), said in markdown(full)) == (True, False)
    cells = [line.split(",") for line in comma_separated(small).splitlines() if ",energy_fp32," in line]
    assert {cell[11] for cell in cells} == {""}


def test_numbers_for_programs_have_no_digits_of_arithmetic(compared: Callable[..., TableData]) -> None:
    for data in (compared(), compared(ours_only=True)):
        for text in (comma_separated(data), as_json(data)):
            assert not re.search(r"\d\.\d*(0{6}|9{6})\d*", text)
    rows = {(row["system"], row["column"]): row for row in csv.DictReader(io.StringIO(comma_separated(compared())))}
    assert rows["spikelm_t1", "sst2"]["difference"] == "-16.4", "70.1 - 86.5 is -16.400000000000006"
    assert rows["spikelm_t1", "T"]["ours"] == "1"
    single = Cell("rte", ours=(73.00000190734863,), paper=Decimal("52.7"))
    assert (cell_dict(single)["ours"], cell_dict(single)["difference"]) == (73.0, 20.3)


def test_a_table_of_ours_alone_has_nothing_of_the_paper(compared: Callable[..., TableData], tmp_path: Path) -> None:
    data = compared(ours_only=True)
    console = Console(width=200, record=True, file=io.StringIO())
    show_table(data, console)
    formats = [console.export_text(), markdown(data), latex(data), comma_separated(data), as_json(data)]
    for text in formats:
        assert not re.search(r"the paper|printed|difference|BERT_base|All its runs", text)
        assert "51.41" not in text, "the paper's energy of BERT_base"
        assert "PSN" not in text, "a row that was not run is left out"
        assert "SpikeLM" in text
    assert r"SpikeLM & \textbf{0.000200} & 1 & \textbf{70.1} & \textbf{50.0} & \textbf{60.1} \\" in latex(data)
    assert write_table(data, tmp_path)[0].name == "table3-smoke-embedded-sst2+rte-ours.md"


@pytest.mark.parametrize("id", TABLES)
def test_names_and_notes_of_ours_alone_do_not_speak_of_the_paper(id: int) -> None:
    table = load_table(id)
    texts = [*table.notes, *(note.text for note in table.footnotes if note.ours)]
    names = [row.ours or row.name for row in table.rows]
    assert not [
        text for text in (*texts, *names) if re.search(r"[Tt]he paper|printed|_base|_large|_\dL|\*|\(ours\)", text)
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_that_is_too_narrow_gets_columns_below_each_other(width: int, data: TableData) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    show_table(data, console)
    lines = [line for line in console.export_text().splitlines() if not line.startswith(("  ", "Table"))]
    assert max(len(line.rstrip()) for line in lines) <= width
    heads = [line.split() for line in lines if line.strip().startswith("system")]
    shown = [name for head in heads for name in head[1:]]
    assert [name for name in shown if name not in ("mJ", "fp32")] == [
        n for n in data.columns.values() if n != "mJ fp32"
    ]


def test_latex_says_what_is_missing_to_its_author_alone(compared: Callable[..., TableData]) -> None:
    text = latex(compared())
    assert re.search(r"^% Runs that are missing: \d+; cells without any are empty\.$", text, re.MULTILINE)
    assert "Runs that are missing" not in text.partition("% --- the table ---")[2]


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
