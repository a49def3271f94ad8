"""Tables from results: ours beside the paper's, mean over seeds, missing cells empty, footnotes at misprints."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from canned import Canned, glue, result
from made_up_result import ENVIRONMENT, made_up

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.config.settings.source import SourceConfig
from spikelm.errors import ConfigError, DataError
from spikelm.report.query.selection import SelectedRun
from spikelm.report.tables.build import build_table, table_runs
from spikelm.report.tables.cells import Cell
from spikelm.report.tables.formats import latex, markdown
from spikelm.report.tables.paper_table import TABLES, PaperTable, load_table
from spikelm.runs.experiment import open_run


@pytest.fixture
def store(tmp_path: Path) -> Canned:
    known = glue("spikelm_t4", 1, 50.0, 59.0) | glue("spikelm_t4", 2, 52.0, 61.0)
    known["spikelm_t4", "pretrain", 42] = result("pretrain", {"loss": 1.0}, 0.5)
    return Canned(known, tmp_path, (1, 2))


def rows(table: PaperTable, *systems: str) -> PaperTable:
    return replace(table, rows=[row for row in table.rows if row.system in systems])


def texts(data: object, line: int) -> list[tuple[str, str, str]]:
    cells = data.lines[line].cells.values()  # type: ignore[attr-defined]
    return [(cell.ours_text, cell.paper_text, cell.difference_text) for cell in cells]


def test_mean_and_deviation_over_seeds_beside_the_paper(store: Canned) -> None:
    data = build_table(rows(load_table(7), "spikelm_t4", "spikelm_k3"), store)
    # nine numbers: eight of 50 (or 52) and one of 59 (or 61)
    means = [(8 * 50 + 59) / 9, (8 * 52 + 61) / 9]
    assert texts(data, 0) == [
        (f"{statistics.fmean(means):.1f}±{statistics.stdev(means):.1f}", "76.5", "−24.5"),
        ("0.500", "13.7", ""),
        ("25.0", "–", ""),
    ], "energy and firing are of the one pretrained run, so they have no deviation"
    assert texts(data, 1) == [("", "75.1", ""), ("", "10.4", ""), ("", "–", "")], "what was not run is empty, not zero"
    cell = data.lines[0].cells["avg"]
    assert len(cell.runs) == 16
    assert cell.difference == pytest.approx(statistics.fmean(means) - 76.5)
    assert len(data.missing) == 16
    assert all("system=spikelm_k3" in command for command in data.missing)


def test_a_cell_without_all_of_its_seeds_says_how_many_it_has(store: Canned) -> None:
    del store.known["spikelm_t4", "glue/rte", 2]
    data = build_table(rows(load_table(3), "spikelm_t4"), store)
    cells = data.lines[0].cells
    assert (cells["rte"].ours_text, cells["avg"].ours_text) == ("50.0 (1 of 2)", "51.0 (1 of 2)")
    assert cells["cola"].ours_text == "51.0±1.4"
    assert cells["energy_fp32"].ours_text == "0.500", "one pretrained run for all seeds"
    assert cells["T"].ours_text == "4", "whatever the seed"
    for text in (markdown(data), latex(data).partition("--- the table ---")[2]):
        assert "(1 of 2) after a number says how many of the seeds it comes from." in text


def test_bits_that_no_seed_changes_have_no_deviation() -> None:
    assert Cell("act_bits", (8, 8, 8), digits=0).ours_text == "8"
    assert Cell("T", (4, 4), digits=0).ours_text == "4"
    assert Cell("act_bits", (4, 8), digits=0).ours_text == "6±3", "seeds that differ are not hidden"
    assert Cell("cola", (50.0, 50.0)).ours_text == "50.0±0.0", "a score is measured"


def test_small_energies_keep_three_digits_and_signs_are_set_alike(tmp_path: Path) -> None:
    known = glue("spikelm_t4", 42, -6.54, 50.0)
    known["spikelm_t4", "pretrain", 42] = result("pretrain", {"loss": 1.0}, 0.0015349)
    cells = build_table(rows(load_table(3), "spikelm_t4"), Canned(known, tmp_path)).lines[0].cells
    energy, score = cells["energy_fp32"], cells["stsb"]
    assert (energy.ours_text, energy.difference_text) == ("0.00153", ""), "the paper has two digits behind the point"
    assert (score.ours_text, score.difference_text) == ("−6.5", "−91.4")
    exact = Cell("stsb", ours=(84.86,), paper=Decimal("84.9"))
    assert exact.difference_text == "+0.0"


def test_an_incomplete_row_has_no_average(store: Canned) -> None:
    del store.known["spikelm_t4", "glue/rte", 1]
    store = Canned(store.known, store.selection.root, (1,))
    table = rows(load_table(3), "spikelm_t4")
    cells = build_table(table, store).lines[0].cells
    assert cells["avg"].ours == cells["rte"].ours == ()
    assert cells["cola"].ours == (50.0,)
    assert cells["mnli_mm"].ours == (59.0,)


def test_every_cell_names_its_run(store: Canned) -> None:
    cells = build_table(rows(load_table(3), "spikelm_t4"), store).lines[0].cells
    wanted = [store.find("spikelm_t4", "glue/rte", seed).run for seed in (1, 2)]
    assert cells["rte"].runs == tuple((run.id, f"glue-rte/{run.directory.name}") for run in wanted)
    assert cells["energy_fp32"].runs[0][0] == store.find("spikelm_t4", "pretrain").run.id


def test_a_table_that_is_not_there_says_which_are() -> None:
    assert list(range(1, 10)) == TABLES
    with pytest.raises(ConfigError, match="tables: 1, 2, 3, 4, 5, 6, 7, 8, 9"):
        load_table(10)


def test_a_few_tasks_have_a_mean_of_their_own_that_says_so(store: Canned) -> None:
    table = load_table(3).only(["glue/mnli", "rte"])
    assert table.tasks == ["glue/mnli", "glue/rte"]
    data = build_table(rows(table, "spikelm_t4"), Canned(store.known, store.selection.root, (1,)))
    assert data.name == "table3-smoke-embedded-s1-mnli+rte"
    found = {name: (cell.ours_text, cell.paper_text) for name, cell in data.lines[0].cells.items()}
    assert found["mnli_m"] == ("50.0", "77.1")
    assert found["mnli_mm"] == ("59.0", "77.2")
    assert found["rte"] == ("50.0", "69.0")
    assert found["avg"] == ("53.0", "74.4"), "(77.1 + 77.2 + 69.0) / 3"
    assert any("Only mnli, rte: an average is over these alone" in note for note in data.notes)
    with pytest.raises(ConfigError, match="did you mean rte"):
        load_table(3).only(["glue/rt"])


def test_a_table_of_averages_only_does_not_compare_a_few_tasks_with_nine(store: Canned) -> None:
    table = rows(load_table(7).only(["rte"]), "spikelm_t4")
    data = build_table(table, Canned(store.known, store.selection.root, (1,)))
    assert texts(data, 0)[0] == ("50.0", "–", "")


def test_misprinted_averages_and_only_these_are_marked() -> None:
    from spikelm.report.tables.build import misprinted_average

    marked = {
        (table.id, row.name): misprinted_average(table, row)
        for table in map(load_table, TABLES)
        for row in table.rows
        if misprinted_average(table, row)
    }
    assert set(marked) == {(3, "LIF-BERT*"), (4, "BiT"), (9, "LIF-BERT* (original)")}, "facts, section 1"
    assert "33.99" in marked[3, "LIF-BERT*"]
    assert "71.73" in marked[4, "BiT"]


def test_a_row_needs_the_runs_of_printed_numbers_only(tmp_path: Path) -> None:
    store = Canned({}, tmp_path)
    table = rows(load_table(8), "gpt2", "bertsumabs", "bert")
    needed = {(run.system, run.task) for run in table_runs(table, store)}
    assert {task for system, task in needed if system == "gpt2"} == {"sum/cnn_dm"}
    assert {task for system, task in needed if system == "bertsumabs"} == {"sum/cnn_dm", "sum/xsum"}
    assert {task for system, task in needed if system == "bert"} == {"sum/cnn_dm", "sum/xsum", "mt/wmt16_enro"}


def test_texts_are_scored_by_the_rows_metric_and_energy_is_of_a_generated_text(tmp_path: Path) -> None:
    scores = {"rouge1_test": 41.0, "rouge2_test": 19.0, "rougeL_test": 28.0, "rougeLsum_test": 38.0}
    made = {"fp32": 2.5, "ann_fp32": 9.0, "beams": 4, "mean_source": 9.0, "mean_target": 5.0}
    lengths = {"source": 10, "target": 5}
    generated = {**made, "firing_rate_per_site": {}}
    detail = {"energy_detail": {"lengths": lengths, "generated": generated, "lm_head_fp32": 1.0}}
    known = {
        ("bert", "sum/cnn_dm", 42): result("sum/cnn_dm", scores),
        ("bertsumabs", "sum/cnn_dm", 42): result("sum/cnn_dm", scores),
        ("bert", "sum/xsum", 42): result("sum/xsum", scores, **detail),
    }
    data = build_table(rows(load_table(8), "bert", "bertsumabs"), Canned(known, tmp_path))
    bart, other = (line.cells for line in data.lines)
    assert (bart["cnndm_rL"].ours, other["cnndm_rL"].ours) == ((28.0,), (38.0,))
    assert bart["xsum_energy"].ours == (2.5,)
    assert other["cnndm_rL"].footnotes
    assert not bart["cnndm_rL"].footnotes


PARTLY = {"verdict": "partly", "operations": "MACs", "spike_driven": False, "real_valued": [], "silent": []}


def test_table_one_is_made_of_audits(tmp_path: Path) -> None:
    known = {
        ("spikelm_t4", "pretrain", 42): result("pretrain", {"loss": 1.0}),
        ("spikelm_t4", "sum/xsum", 42): result("sum/xsum", {"rougeL": 1.0}),
        ("spikegpt", "pretrain", 42): result("pretrain", {"loss": 1.0}, spike_driven=PARTLY),
    }
    data = build_table(rows(load_table(1), "spikegpt", "spikelm_t4"), Canned(known, tmp_path))
    gpt, lm = ({name: cell.ours_text for name, cell in line.cells.items()} for line in data.lines)
    assert (gpt["verdict"], gpt["operations"]) == ("partly", "MACs")
    assert (lm["verdict"], lm["operations"]) == ("fully", "ACs")
    assert gpt["generation"] == "plain text"
    assert lm["generation"] == "1 of 3 tasks"
    assert lm["discrimination"] == "", "none of its GLUE tasks was run: empty"
    assert "audits" in data.computed_from


def test_levels_of_spikes_are_those_of_the_neuron(tmp_path: Path) -> None:
    known = {(system, "pretrain", 42): result("pretrain", {"loss": 1.0}) for system in LEVELS}
    data = build_table(rows(load_table(6), *LEVELS), Canned(known, tmp_path))
    for line in data.lines:
        cell = line.cells["levels"]
        assert cell.ours == (cell.paper,) == (LEVELS[str(line.system)],)
        assert cell.difference_text == "same"


LEVELS = {
    "lif_bert": "{0,1}",
    "spikelm_fixed": "{-1,0,1}",
    "spikelm_uni": "{0,alpha}",
    "spikelm_t4": "{-alpha,0,alpha}",
}


def finish(root: Path, overrides: list[str], **known: object) -> None:
    """A finished run with made-up numbers, as the store would hold it."""
    config = load_config([*overrides, "scale=smoke", f"runs_dir={root}"])
    run = open_run(config)
    run.start(config, ENVIRONMENT)
    run.finish(made_up(**{"run_id": run.id, "config": config, **known}))


def test_the_command_reads_the_store_and_overrides_make_another_file(tmp_path: Path) -> None:
    from spikelm.cli.report import main

    energy = {"fp32": 0.5, "fp16": 0.25}
    rate = {"mean": 0.25, "per_site": {}}
    finish(tmp_path, ["system=spikelm_t1", "task=pretrain"], metrics={}, energy_mj=energy, firing_rate=rate)
    asked = ["table", "5", "--scale", "smoke", "--runs-dir", str(tmp_path), "--to", str(tmp_path / "to")]
    assert main(asked) == 0
    found = json.loads((tmp_path / "to" / "tables" / "table5-smoke-embedded.json").read_text())
    ours = {line["system"]: line["cells"]["energy_fp32"]["ours"] for line in found["lines"]}
    assert ours == {"bert": None, "lif_bert": None, "spikelm_t1": 0.5, "spikelm_t4": None}
    assert main([*asked, "pretrain.lr=1e-4"]) == 0
    others = [path for path in (tmp_path / "to" / "tables").glob("*.json") if path.stem != "table5-smoke-embedded"]
    assert len(others) == 1
    assert "pretrain.lr=1e-4" in others[0].read_text()
    assert '"ours": 0.5' not in others[0].read_text(), "runs with other settings are others"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("task=glue/rte", "--tasks"),
        ("--sede", "has no option --sede; did you mean --seeds"),
        ("foo", "has no argument foo"),
    ],
)
def test_what_a_table_cannot_be_given_is_refused(word: str, says: str, tmp_path: Path) -> None:
    from spikelm.cli.report import main

    with pytest.raises(ConfigError, match=says):
        main(["table", "7", "--runs-dir", str(tmp_path), word])


def test_local_files_are_those_of_the_runs_there_are(tmp_path: Path) -> None:
    from spikelm.report.query.run_list import local_root

    with pytest.raises(ConfigError, match="no runs from local files at scale mini"):
        local_root(tmp_path, "mini")
    finish(tmp_path, [], scale="mini", config=Config(source=SourceConfig(name="local", root="/data/glue")))
    assert local_root(tmp_path, "mini") == "/data/glue"
    with pytest.raises(ConfigError):
        local_root(tmp_path, "paper")


def test_where_nothing_is_pretrained_measures_are_of_the_fine_tuned_runs(tmp_path: Path) -> None:
    class Given(Canned):
        def find(self, system: str, task: str, seed: int | None = None, extra: Sequence[str] = ()) -> SelectedRun:
            if task == "pretrain":
                raise ConfigError("task=pretrain starts from scratch")
            if task not in ("glue/rte", "glue/cola"):
                raise DataError(f"no folder for {task}")
            found = super().find(system, task, seed, extra)
            return found._replace(config=replace(found.config, backbone=replace(found.config.backbone, path="given")))

    known = {
        ("spikelm_t4", "glue/rte", 42): result("glue/rte", {"accuracy": 1.0}, 0.5),
        ("spikelm_t4", "glue/cola", 42): result("glue/cola", {"matthews": 1.0}, 1.5),
    }
    data = build_table(rows(load_table(5), "spikelm_t4"), Given(known, tmp_path))
    assert data.lines[0].cells["energy_fp32"].ours == (1.0,), "the mean of both"
    assert any("start from the weights given: " in note for note in data.notes)
    refused = build_table(rows(load_table(1), "spikegpt"), Given({}, tmp_path))
    assert refused.lines[0].cells["verdict"].ours == ()
    assert refused.notes[0] == "SpikeGPT cannot be run at scale smoke: task=pretrain starts from scratch."
