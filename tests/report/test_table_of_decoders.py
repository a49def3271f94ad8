"""The table and the figure of decoders: of runs on running text, against numbers computed by hand."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from canned import Canned, config_of, result
from rich.console import Console

from spikelm.cli.report import main
from spikelm.config.compose import load_config
from spikelm.report.figures.figures import draw_figure, figure_runs, load_figure
from spikelm.report.query.selection import SelectedRun
from spikelm.report.reproduce.reference import _begun
from spikelm.report.tables.build import build_table, has_pretraining, table_runs
from spikelm.report.tables.cells import TableData
from spikelm.report.tables.formats import markdown, show_table
from spikelm.report.tables.paper_table import PaperTable, load_table
from spikelm.runs.labels import tables_of, title
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.result import Result

TASK = "lm/embedded"
TOKENS = 64
PLAIN = 100.0  # nJ that a token takes in the plain decoder
SHOWN = ("bert", "quant2_bert", "spikelm_t1", "spikelm_t4", "spikelm_residual_d2", "phase_bert")


def run(perplexity: float, events: float | None, T: int = 1, seconds: float = 90.0, virtual: int | None = 1) -> Result:
    """A finished decoder: so many events a value over all of its time steps, each an addition of 0.9 pJ."""
    token = PLAIN if events is None else PLAIN * events * 0.9 / 4.6
    whole, plain = (1e-6 * TOKENS * one for one in (token, PLAIN))
    return result(
        TASK,
        {"perplexity": perplexity, "bits_per_byte": perplexity / 10, "accuracy": 100 - perplexity},
        energy_mj={"fp32": whole, "fp16": whole / 3},
        energy_ann_mj={"fp32": plain, "fp16": plain / 3},
        energy_token={"tokens": TOKENS, "fp32": 1e-6 * token, "ann_fp32": 1e-6 * PLAIN, "lm_head_fp32": 7e-5},
        firing_rate={"mean": None if events is None else events / T, "per_site": {}, "virtual_steps": virtual},
        seconds=seconds,
    )


def rows(table: PaperTable, *systems: str) -> PaperTable:
    return replace(table, rows=[row for row in table.rows if row.system in systems])


@pytest.fixture
def store(tmp_path: Path) -> Canned:
    """Decoders of five systems, and a pretrained run of one of them that has nothing to do with them."""
    known = {
        ("bert", TASK, 42): run(5.0, None, virtual=None),
        ("quant2_bert", TASK, 42): run(6.25, 0.5, virtual=2),
        ("spikelm_t1", TASK, 42): run(8.004, 0.46),
        ("spikelm_t4", TASK, 42): run(7.5, 1.5, T=4, seconds=211.4),
        ("spikelm_residual_d2", TASK, 42): run(6.0, 1.0, virtual=2),
        ("spikelm_t1", "pretrain", 42): result("pretrain", {"loss": 1.0}, 9.0, 0.9, seconds=1000.0),
    }
    return Canned(known, tmp_path)


@pytest.fixture
def data(store: Canned) -> TableData:
    return build_table(rows(load_table("decoders"), *SHOWN), store)


def shown(data: TableData, system: str) -> dict[str, str]:
    (line,) = (line for line in data.lines if line.system == system)
    return {name: cell.ours_text for name, cell in line.cells.items()}


def best(data: TableData, column: str) -> list[str | None]:
    return [line.system for line in data.lines if line.cells[column].best]


def test_events_nanojoules_and_their_ratio_are_those_computed_by_hand(data: TableData) -> None:
    one, four, two = (shown(data, system) for system in ("spikelm_t1", "spikelm_t4", "spikelm_residual_d2"))
    assert (one["events"], four["events"], two["events"]) == ("0.46", "1.50", "1.00")
    # of 100 nJ: 0.46 * 0.9 / 4.6 = 0.09; 1.5 * 0.9 / 4.6 = 0.29348; 0.9 / 4.6 = 0.19565
    assert (one["energy_token"], four["energy_token"], two["energy_token"]) == ("9.00", "29.3", "19.6")
    assert (one["energy_ratio"], four["energy_ratio"], two["energy_ratio"]) == ("0.0900", "0.293", "0.196")
    assert (one["T"], four["T"], one["virtual_steps"], two["virtual_steps"]) == ("1", "4", "1", "2")
    assert (one["perplexity"], one["bits_per_byte"]) == ("8.00", "0.800")
    plain = shown(data, "bert")
    assert (plain["energy_token"], plain["energy_ratio"]) == ("100", "1.00")
    assert (plain["events"], plain["virtual_steps"]) == ("", "")


def test_measures_are_of_the_run_on_text_whatever_was_pretrained(data: TableData, store: Canned) -> None:
    for line in data.lines:
        used = {id for cell in line.cells.values() for id, _ in cell.runs}
        assert used <= {store.find(str(line.system), TASK).run.id}
    assert (shown(data, "spikelm_t1")["seconds"], shown(data, "spikelm_t4")["seconds"]) == ("90", "211")
    assert data.computed_from == (
        "Energy and firing rates are measured on 16 samples of 64 tokens with the model that each system's own run "
        "has trained, each site with its own rate: nothing is pretrained here."
    )


def test_the_best_is_the_lowest_perplexity_of_what_is_no_plain_model(data: TableData, store: Canned) -> None:
    assert best(data, "perplexity") == best(data, "bits_per_byte") == ["spikelm_residual_d2"], "the plain one has 5.0"
    assert best(data, "energy_token") == best(data, "energy_ratio") == ["spikelm_t1"]
    assert not best(data, "events")
    assert "Bold is the best of a column, of energies, perplexity and bits per byte the lowest." in markdown(data)
    table = replace(rows(load_table("decoders"), *SHOWN), averaged=())
    perplexity, *others = table.columns
    first = build_table(replace(table, columns=[replace(perplexity, metric=""), *others]), store)
    assert best(first, "perplexity") == ["spikelm_residual_d2"], "a column without a metric has the first of its task"
    accuracy = build_table(replace(table, columns=[replace(perplexity, metric="accuracy"), *others]), store)
    assert best(accuracy, "perplexity") == ["spikelm_residual_d2"], "94 percent, the highest"
    assert "of energies and bits per byte the lowest" in markdown(accuracy)


def test_a_metric_of_another_split_has_the_same_direction(tmp_path: Path) -> None:
    class Tested(Canned):
        def find(self, system: str, task: str, seed: int | None = None, extra: Sequence[str] = ()) -> SelectedRun:
            found = super().find(system, task, seed, extra)
            splits = replace(found.config.task, splits={"validation": "", "test": "_test"})
            return found._replace(config=replace(found.config, task=splits))

    known = {
        (system, TASK, 42): run(9.0, 0.5).model_copy(update={"metrics": {"perplexity": 9.0, "perplexity_test": there}})
        for system, there in (("spikelm_t1", 7.0), ("spikelm_t4", 6.0))
    }
    table = rows(load_table("decoders"), "spikelm_t1", "spikelm_t4")
    perplexity, *others = table.columns
    table = replace(table, columns=[replace(perplexity, metric="perplexity_test"), *others], averaged=())
    assert best(build_table(table, Tested(known, tmp_path)), "perplexity") == ["spikelm_t4"]


def test_a_row_that_was_not_run_says_so(data: TableData) -> None:
    assert shown(data, "phase_bert") == dict.fromkeys(data.columns, "") | {"perplexity": "not run"}
    assert data.missing == ["spikelm-run system=phase_bert task=lm/embedded scale=smoke source=embedded seed=42"]
    console = Console(width=200, file=io.StringIO())
    show_table(data, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "rows without any say so" in printed
    assert "nJ a token" in printed
    assert "paper" not in printed.replace("docs/paper", "")


def test_what_cannot_be_read_off_a_number_has_a_footnote(tmp_path: Path) -> None:
    known = {(system, TASK, 42): run(7.0, 0.5) for system in ("quant3_bert", "spikegpt", "lif_bert")}
    made = build_table(rows(load_table("decoders"), "quant3_bert", "spikegpt", "lif_bert"), Canned(known, tmp_path))
    quantised, lif, gpt = (
        {made.footnotes[place] for cell in line.cells.values() for place in cell.footnotes} for line in made.lines
    )
    assert not lif
    (bits,), (blocks,) = quantised, gpt
    assert bits.startswith("A quantised model computed bit by bit")
    assert blocks.startswith("Blocks of its own (RWKV, no attention)")


def test_its_runs_are_one_for_each_row_and_start_from_no_other(tmp_path: Path) -> None:
    table, store = load_table("decoders"), Canned({}, tmp_path)
    assert [(run.system, run.task) for run in table_runs(table, store)] == [(row.system, TASK) for row in table.rows]
    assert figure_runs(load_figure("decoders"), store) == table_runs(table, store)
    for row in table.rows:
        config = config_of(str(row.system), TASK)
        assert config.skips_pretraining
        assert not has_pretraining(config)
        assert not prerequisites(config)
        called = title(config).replace("LIF-Llama", "LIF decoder").replace("Llama", "decoder")
        assert row.name == ("Plain decoder" if row.system == "bert" else called)
    assert not config_of("spikelm_t1").skips_pretraining, "glue/rte starts from a pretrained BERT"
    assert load_config(["task=sum/xsum", "scale=smoke"]).skips_pretraining
    assert not load_config(["task=sum/xsum", "system=bertsumabs", "scale=smoke"]).skips_pretraining


def test_a_run_on_text_belongs_to_this_table_and_a_pretrained_one_does_not() -> None:
    assert tables_of("spikelm_t1", TASK) == ["decoders"]
    assert "decoders" not in tables_of("spikelm_t1", "pretrain")
    assert "field" in tables_of("spikelm_t1", "pretrain")


@pytest.mark.parametrize(
    ("system", "task", "tables"),
    [("bert", TASK, ["decoders"]), ("lif_bert", "glue/rte", []), ("place_bert", "glue/rte", ["field"])],
)
def test_a_reference_has_it_once_a_decoder_was_run(system: str, task: str, tables: list[str], tmp_path: Path) -> None:
    assert _begun(Canned({(system, task, 42): run(7.0, 0.5)}, tmp_path)) == tables


def test_reproduce_plans_the_table_and_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["reproduce", "decoders", "--scale", "smoke", "--plan", "--launcher", "basic", "--runs-dir", str(tmp_path)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("table decoders, figure decoders")
    assert ": 14 runs, 0 finished" in said


def test_the_figure_has_low_perplexities_below_and_enlarges_the_lower_end(store: Canned) -> None:
    store.known["lif_bert", TASK, 42] = run(60.0, 0.6, T=4)
    drawn = draw_figure("decoders", store)
    assert drawn.figure is not None
    everything, enlarged = drawn.figure.axes
    assert everything.get_ylabel() == "perplexity (micro-world), lower is better"
    assert everything.get_xlabel() == "nJ of one token (fp32), lower is better"
    assert everything.get_xscale() == "log"
    assert everything.get_ylim()[0] < everything.get_ylim()[1], "upwards, as perplexities are drawn"
    assert any(text.get_text() == "↙ better" for text in everything.texts)
    assert enlarged.get_ylim()[1] < 60
    assert enlarged.get_title(loc="left").endswith("the lower end, enlarged")
    points = drawn.data["ours"]
    assert list(points) == [
        *("Plain decoder", "Quantised decoder, 2 bits", "LIF decoder", "SpikeLM, T=1", "SpikeLM, T=4"),
        "Residual code D=2",
    ]
    assert points["SpikeLM, T=1"] == pytest.approx((9.0, 8.004))
    assert "Micro-world scores are not GLUE's" not in drawn.caption
    assert drawn.title == "Perplexity against energy of spiking and quantised decoders (docs/guide/decoders.md)"
