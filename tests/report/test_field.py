"""The table and the figure of the field: ours alone, against numbers computed by hand, in every format and place."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from canned import Canned, glue, result
from made_up_result import ENVIRONMENT
from rich.console import Console

from spikelm.cli.report import main
from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.report.figures.figures import FIGURES, OWN_FIGURES, draw_figure, figure_runs, load_figure
from spikelm.report.page.site import Site
from spikelm.report.query.selection import Selection
from spikelm.report.reproduce import reference
from spikelm.report.reproduce.reference import renew
from spikelm.report.tables.build import build_table, table_runs
from spikelm.report.tables.cells import TableData
from spikelm.report.tables.formats import as_json, comma_separated, latex, markdown, show_table, write_table
from spikelm.report.tables.paper_table import OWN_TABLES, TABLES, PaperTable, load_table
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title

PLAIN = 0.0241  # mJ of a plain model
#: MACs of four sites and their spikes a value and time step
SITES = {"qkv_in": (3000, 0.5), "key_out": (500, 1.5), "ffn1_in": (4000, 0.25), "ffn2_in": (4000, 2.0)}


def pretrained(T: int, seconds: float, virtual: int | None = 1) -> object:
    """A pretrained run with the mean of SITES, and the energy of that many additions."""
    macs = sum(count for count, _ in SITES.values())
    mean = sum(count * rate for count, rate in SITES.values()) / macs
    known = {"seconds": seconds, "energy_ann_mj": {"fp32": PLAIN, "fp16": PLAIN / 3}}
    rates = {"mean": mean, "per_site": {}, "virtual_steps": virtual}
    return result("pretrain", {"loss": 1.0}, PLAIN * T * mean * 0.9 / 4.6, firing_rate=rates, **known)


def rows(table: PaperTable, *systems: str) -> PaperTable:
    return replace(table, rows=[row for row in table.rows if row.system in systems])


@pytest.fixture
def data(tmp_path: Path) -> TableData:
    """Plain, SpikeLM at T=4, a code at T=1 and a quantised model; place values were not run."""
    known = {}
    for system, score in {"bert": 70.0, "spikelm_t4": 60.0, "spikelm_residual_d2": 65.0, "quant2_bert": 66.0}.items():
        known |= glue(system, 42, score, score + 9)
    known["bert", "pretrain", 42] = result(
        "pretrain", {"loss": 1.0}, PLAIN, None, seconds=10.0, energy_ann_mj={"fp32": PLAIN, "fp16": PLAIN / 3}
    )
    known["spikelm_t4", "pretrain", 42] = pretrained(4, 40.0, None)
    known["spikelm_residual_d2", "pretrain", 42] = pretrained(1, 11.0, 2)
    known["quant2_bert", "pretrain", 42] = pretrained(1, 12.0, 2)
    table = rows(load_table("field"), "bert", "spikelm_t4", "spikelm_residual_d2", "quant2_bert", "place_bert")
    return build_table(table, Canned(known, tmp_path))


def shown(data: TableData, system: str) -> dict[str, str]:
    (line,) = (line for line in data.lines if line.system == system)
    return {name: cell.ours_text for name, cell in line.cells.items()}


def test_events_energy_and_seconds_are_those_computed_by_hand(data: TableData) -> None:
    # (3000 * 0.5 + 500 * 1.5 + 4000 * 0.25 + 4000 * 2) / 11500 = 11250 / 11500 = 0.978 spikes a value and time step
    one, four = shown(data, "spikelm_residual_d2"), shown(data, "spikelm_t4")
    assert (one["events"], four["events"]) == ("0.98", "3.91"), "T=4 sends four times as many"
    # 0.97826 * 0.9 / 4.6 = 0.19140
    assert (one["energy_ratio"], four["energy_ratio"]) == ("0.191", "0.766")
    assert (one["energy_fp32"], four["energy_fp32"]) == ("0.00461", "0.0185")
    assert (one["T"], four["T"]) == ("1", "4")
    assert (one["virtual_steps"], four["virtual_steps"]) == ("2", "1"), "a record from before it was measured: SpikeLM"
    # pretraining and eight fine-tunings of 12.5 s
    assert (one["seconds"], four["seconds"]) == ("111", "140")
    assert one["avg"] == "66.0", "eight of 65 and one of 74"
    plain = shown(data, "bert")
    assert (plain["events"], plain["energy_ratio"], plain["virtual_steps"], plain["T"]) == ("", "1.00", "", "1")


def test_of_several_seeds_scores_have_a_deviation_and_the_quickest_runs_tell_the_seconds(tmp_path: Path) -> None:
    known = glue("spikelm_residual_d2", 1, 60.0, 60.0) | glue("spikelm_residual_d2", 2, 64.0, 64.0)
    slow, quick = (known["spikelm_residual_d2", "glue/rte", seed] for seed in (1, 2))
    known["spikelm_residual_d2", "glue/rte", 1] = slow.model_copy(update={"seconds": 90.0})
    known["spikelm_residual_d2", "glue/rte", 2] = quick.model_copy(update={"seconds": 2.5})
    known["spikelm_residual_d2", "pretrain", 42] = pretrained(1, 10.0, 2)
    made = build_table(rows(load_table("field"), "spikelm_residual_d2"), Canned(known, tmp_path, (1, 2)))
    cells = shown(made, "spikelm_residual_d2")
    assert cells["avg"] == "62.0±2.8"
    assert cells["seconds"] == "100", "10 + 7 * 12.5 + 2.5, whatever shared the cores of the other"
    assert cells["events"] == "0.98", "one pretrained run for all seeds"


def test_a_row_without_runs_says_so_in_every_format(data: TableData, tmp_path: Path) -> None:
    assert shown(data, "place_bert") == dict.fromkeys(data.columns, "") | {"avg": "not run"}
    assert "| Place values, 4 bits | not run |  |" in markdown(data)
    assert r"Place values, 4 bits & not run &  &" in latex(data)
    lines = {line["system"]: line["cells"] for line in json.loads(as_json(data))["lines"]}
    assert (lines["place_bert"]["avg"]["ours"], lines["place_bert"]["avg"]["text"]["ours"]) == (None, "not run")
    console = Console(width=200, file=io.StringIO())
    show_table(data, console)
    assert re.search(r"Place values, 4 bits\s+not run", console.file.getvalue())  # type: ignore[attr-defined]
    assert "rows without any say so" in markdown(data)
    assert len(data.missing) == 8
    alone = build_table(rows(load_table("field"), "place_bert"), Canned({}, tmp_path), ours_only=True)
    assert alone.lines == [], "--ours leaves it out"


def test_no_format_has_a_column_for_a_paper(data: TableData, tmp_path: Path) -> None:
    console = Console(width=200, file=io.StringIO())
    show_table(data, console)
    texts = [console.file.getvalue(), markdown(data), latex(data), comma_separated(data), as_json(data)]  # type: ignore[attr-defined]
    for text in texts:
        assert not re.search(r"\bpaper|[Dd]ifference|printed|Table field", text)
        assert "Residual code D=2" in text
        assert "–" not in text, "no cell for a number that nobody printed"
    body = latex(data).partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 5
    assert all(len(re.split(r"(?<!\\)&", line)) == 1 + len(data.columns) for line in lines)
    header = next(csv.reader(io.StringIO(comma_separated(data))))
    assert header == [
        *("table", "scale", "source", "row", "system", "column"),
        *("ours", "deviation", "seeds", "best", "runs"),
    ]
    names = [path.name for path in write_table(data, tmp_path)]
    assert names == [f"table-field-smoke-embedded.{end}" for end in ("md", "tex", "csv", "json")]


def test_the_energy_of_a_quantised_model_has_its_footnote(data: TableData) -> None:
    (line,) = (line for line in data.lines if line.system == "quant2_bert")
    marked = {name for name, cell in line.cells.items() if cell.footnotes}
    assert marked == {"energy_fp32", "energy_ratio"}
    (text,) = data.footnotes
    assert text.startswith("A quantised model computed bit by bit: one addition for each set bit")
    assert not [
        cell for one in data.lines if one.system != "quant2_bert" for cell in one.cells.values() if cell.footnotes
    ]


def test_every_row_is_called_by_the_title_of_its_system() -> None:
    for row in load_table("field").rows:
        config = load_config([f"system={row.system}", "task=glue/rte", "scale=smoke"])
        assert row.name == title(config)
        assert config.fires or row.system == "bert", "all but the plain model have events"


def test_the_paper_and_what_is_ours_are_kept_apart() -> None:
    assert OWN_TABLES == OWN_FIGURES == ["decoders", "field"]
    assert not {*OWN_TABLES} & {*TABLES, *FIGURES}, "`all` is the paper's"
    with pytest.raises(ConfigError, match="there is no table fild") as caught:
        load_table("fild")
    assert "9, decoders, field" in caught.value.fix
    with pytest.raises(ConfigError, match="there is no figure fild") as caught:
        load_figure("fild")
    assert "fig8, decoders, field" in caught.value.fix


def test_its_runs_are_all_tasks_of_all_rows(tmp_path: Path) -> None:
    table, store = load_table("field"), Canned({}, tmp_path)
    assert len(table_runs(table, store)) == 8 * len(table.rows)
    assert figure_runs(load_figure("field"), store) == table_runs(table, store)
    few = table.only(["glue/rte"])
    assert {run.task for run in table_runs(few, store)} == {"glue/rte"}
    assert few.notes[0].startswith("Only rte")


@pytest.mark.parametrize(("words", "runs"), [(["--tasks", "glue/rte"], 20), ([], 160)])
def test_reproduce_plans_the_table_and_its_figure(
    words: list[str], runs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["reproduce", "field", "--scale", "smoke", "--plan", "--launcher", "basic", "--runs-dir", str(tmp_path)]
    assert main([*asked, *words]) == 0
    said = capsys.readouterr().out
    assert said.startswith("table field" + ("" if words else ", figure field"))
    assert f": {runs} runs, 0 finished" in said


def test_points_have_one_panel_their_names_and_bars_over_seeds(tmp_path: Path) -> None:
    known = {}
    for place, system in enumerate(("spikelm_t1", "spikelm_t4", "place_bert")):
        known |= glue(system, 1, 60.0 + place, 60.0) | glue(system, 2, 64.0, 64.0)
        known[system, "pretrain", 42] = pretrained(4 if system == "spikelm_t4" else 1, 10.0)
    drawn = draw_figure("field", Canned(known, tmp_path, (1, 2)))
    assert drawn.figure is not None
    (panel,) = drawn.figure.axes
    assert list(drawn.data) == ["ours"]
    assert list(drawn.data["ours"]) == ["SpikeLM, T=1", "SpikeLM, T=4", "Place values, 4 bits"]
    assert panel.get_xscale() == "log"
    assert len(panel.containers) == 3
    assert all(bars.has_yerr for bars in panel.containers)  # type: ignore[attr-defined]
    assert drawn.title == "Score against energy of the codes of the field (docs/guide/field.md)"


def test_the_page_shows_it_with_its_footnotes(data: TableData, tmp_path: Path) -> None:
    write_table(data, tmp_path)
    Site(tmp_path).build()
    page = (tmp_path / "report" / "tables.html").read_text()
    assert "<h2>Codes of spiking language models in one BERT, beside quantised plain models</h2>" in page
    assert "<b>not run</b>" in page
    assert page.count("<sup>1</sup>") == 2
    assert '<small class="delta">' not in page


def finish(root: Path, *overrides: str) -> None:
    config = load_config([*overrides, "scale=smoke", f"runs_dir={root}"])
    run = open_run(config)
    with run.lock():
        run.start(config, ENVIRONMENT)
        run.finish(result(config.task.name, {"accuracy": 61.0}, run_id=run.id, config=config, seed=config.seed))


@pytest.mark.parametrize(("system", "kept"), [("lif_bert", False), ("place_bert", True)])
def test_a_reference_has_it_once_a_system_of_its_own_was_run(
    system: str, kept: bool, runs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "TABLES", (9,))
    monkeypatch.setattr(reference, "OWN_TABLES", ["field"])
    monkeypatch.setattr(reference, "FIGURES", ())
    monkeypatch.setattr(reference, "check_claims", lambda results: [])
    chosen = rows(load_table("field").only(["glue/rte"]), "lif_bert", "place_bert")
    monkeypatch.setattr(
        reference, "load_table", lambda id: chosen if id == "field" else load_table(9).only(["glue/rte"])
    )
    finish(runs_dir, f"system={system}", "task=glue/rte")
    index = renew(Selection("smoke", root=runs_dir), tmp_path / "kept").read_text()
    assert ("table-field-smoke-embedded-rte" in index) is kept
    assert ("`make reproduce-all SCALE=smoke` and `make reproduce-field SCALE=smoke` have made" in index) is kept
    text = tmp_path / "kept" / "tables" / "table-field-smoke-embedded-rte.md"
    assert text.exists() is kept
    if kept:
        assert "| LIF-BERT | not run |" in text.read_text()
        assert "[61.0](../glue-rte/" in text.read_text()
