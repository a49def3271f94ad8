"""What a reproduction runs: prerequisites once, finished runs never, sweeps that are exactly what is missing."""

from __future__ import annotations

import io
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from canned import config_of, finish
from made_up_result import made_up
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.running import TrainerConfig
from spikelm.report.query.selection import Results, Selection, Wanted
from spikelm.report.reproduce import show_needs as showing
from spikelm.report.reproduce.needs import Need, needs_of
from spikelm.report.reproduce.progress import Progress
from spikelm.report.reproduce.reproduce import job_lines
from spikelm.report.reproduce.show_needs import show_needs, totals
from spikelm.report.tables.build import RefusedRow, refused_rows, table_runs
from spikelm.report.tables.paper_table import load_table
from spikelm.runs.cost import cost_of, saved_parameters
from spikelm.runs.experiment import open_run
from spikelm.runs.prerequisites import pretraining_of
from spikelm.runs.timings import Timings
from spikelm.store.result import Result


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    return Selection("smoke", "embedded", (42,), tmp_path)


def test_prerequisites_come_first_and_once_and_finished_runs_need_nothing(selection: Selection) -> None:
    results = Results(selection)
    wanted = [results.find("lif_bert", f"glue/{task}") for task in ("rte", "cola")]
    needs = needs_of(wanted, Timings([]))
    assert [need.config.task.name for need in needs] == ["pretrain", "glue/rte", "glue/cola"]
    assert [need.asked for need in needs] == [False, True, True]
    assert all(need.seconds is None for need in needs), "nothing was run that would tell"
    finish(results.find("lif_bert", "pretrain"))
    finish(wanted[0], 30.0)
    again = Results(selection)
    from spikelm.store.store import Store

    timings = Timings(Store(selection.root).results())
    needs = needs_of([again.find("lif_bert", f"glue/{task}") for task in ("rte", "cola")], timings)
    todo = [need for need in needs if not need.finished]
    assert [need.config.task.name for need in todo] == ["glue/cola"]
    assert todo[0].seconds == 30.0, "as long as the other task of its kind"
    console = Console(record=True, width=120, file=io.StringIO())
    show_needs("table 9", needs, console)
    text = console.export_text()
    assert "2 runs, 1 finished, 1 to do" in text
    assert "about 30 s of runs one after the other\n" in text


def test_a_plan_counts_what_is_made_again_for_its_weights(selection: Selection) -> None:
    results = Results(selection)
    pretrained = results.find("bert", "pretrain")
    for found in (pretrained, results.find("bert", "glue/rte")):
        finish(found, weights=False)  # a result file alone, as in runs/reference
    result = pretrained.run.result()
    assert result is not None
    wanted = [pretrained._replace(result=result), results.find("bit", "glue/rte")]  # BiT imitates the fine-tuned BERT
    timings = Timings([result])
    needs = needs_of(wanted, timings)
    again = {need.config.task.name: need.seconds for need in needs if need.again}
    assert again == {"pretrain": 60.0, "glue/rte": None}, "the teacher, and what it is made from"
    console = Console(record=True, width=160, file=io.StringIO())
    show_needs("table 4", needs, console)
    text = console.export_text()
    assert "2 more are made again for their weights, which are gone: pretrain BERT, glue/rte BERT" in text
    assert "about 60 s of runs one after the other, and 2 runs of which no earlier one tells" in text
    for need in needs:
        if need.again:
            (need.run.directory / "model").mkdir()
    assert not any(need.again for need in needs_of(wanted, timings))


def shown(needs: Sequence[Need], at_once: int = 1, refused: Sequence[RefusedRow] = ()) -> str:
    console = Console(record=True, width=120, file=io.StringIO())
    show_needs("table 3", needs, console, at_once, refused)
    return console.export_text()


def test_a_plan_has_a_row_per_system_and_counts_on_runs_side_by_side(selection: Selection) -> None:
    results = Results(selection)
    systems, tasks = ("bert", "lif_bert", "spikelm_t1"), ("rte", "cola", "mrpc")
    wanted = [results.find(system, f"glue/{task}") for task in tasks for system in systems]
    needs = [replace(need, seconds=1200.0) for need in needs_of(wanted, Timings([]))]
    text = shown(needs, at_once=2)
    (row,) = (line.split() for line in text.splitlines() if "LIF-BERT" in line)
    assert row == ["LIF-BERT", "4", "3", "0", "3", "60", "min", "3", "glue"]
    assert "first models of others" in text
    assert "GPU time" not in text, "earlier runs tell all"
    assert "4.0 h of runs one after the other, 2.0 h with 2 at a time" in text
    text = shown([replace(needs[0], seconds=None), *needs[1:]])
    assert "and 1 run of which no earlier one tells" in text
    assert "GPU time" in text


@pytest.fixture
def paper(tmp_path: Path) -> list[Need]:
    """Table 9 at the paper's scale on eight devices: nothing has been run, no network is there."""
    results = Results(Selection("paper", "", (42,), tmp_path, ("trainer.devices=8", "trainer.tflops=14")))
    return needs_of([results.find(*run) for run in table_runs(load_table(9), results)], Timings([]))


def test_sums_of_a_plan_are_those_of_its_runs(paper: list[Need]) -> None:
    sums = totals(paper, at_once=1)
    costs = [need.cost for need in paper]
    assert sums.unknown == sums.uncounted == 0
    assert sums.gpu_hours == pytest.approx(sum(cost.flops for cost in costs) / 14e12 / 3600)
    assert sums.wall_hours == pytest.approx(sums.gpu_hours / 8)
    assert sums.final_gb == pytest.approx(sum(4 * cost_parameters(need) for need in paper) / 1e9)
    largest = max(cost_parameters(need) for need in paper)
    assert sums.peak_gb == pytest.approx(sums.final_gb + 3 * 12 * largest / 1e9), "three checkpoints of one run"
    text = shown(paper)
    assert f"to do: {len(paper)} runs, {sums.flops:.2e} FLOPs" in text
    assert "at a speed of 14 TFLOP/s per device (trainer.tflops)" in text
    assert "on 8 devices, one after the other" in text
    assert "?" not in text


def cost_parameters(need: Need) -> int:
    return saved_parameters(need.config) or 0


def test_single_runs_side_by_side_take_as_long_as_the_longest_at_least(paper: list[Need]) -> None:
    single = TrainerConfig(devices=1, tflops=14)
    one_each = [replace(need, config=replace(need.config, trainer=single)) for need in paper]
    one_each = [replace(need, cost=cost_of(need.config)) for need in one_each]
    longest = max(need.cost.gpu_hours for need in one_each)
    assert totals(one_each, at_once=4).wall_hours == pytest.approx(max(longest, totals(one_each, 1).gpu_hours / 4))
    assert totals(one_each, at_once=1000).wall_hours == pytest.approx(longest)
    checkpoints = sum(3 * 12 * cost_parameters(need) / 1e9 for need in paper)
    sums = totals(one_each, at_once=1000)
    assert sums.peak_gb == pytest.approx(sums.final_gb + checkpoints), "all train at the same time"


def test_rows_that_cannot_be_run_are_in_the_plan_with_the_reason_and_the_command(tmp_path: Path) -> None:
    results = Results(Selection("paper", "", (42,), tmp_path, ("backbone.path=nowhere/bert",)))
    table = load_table(8)
    refused = refused_rows([table], results)
    names = {row.name for row in refused}
    assert {row.name for row in table.rows if row.system} - names == {"PTGEN"} - names
    assert "BERTSUMABS" in names
    text = shown([], refused=refused)
    assert "rows that cannot be run here yet" in text
    assert "BERTSUMABS (table 8): backbone.path=nowhere/bert" in text
    assert "hf download nowhere/bert" in text


def test_every_row_of_every_table_is_in_the_paper_plan_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a plan asks nobody"))
    results = Results(Selection("paper", "", (42,), tmp_path))
    tables = [load_table(id) for id in (2, 8)]
    planned = {run.system for table in tables for run in table_runs(table, results)}
    named = {row.name for row in refused_rows(tables, results)}
    for table in tables:
        for row in table.rows:
            assert row.system is None or row.system in planned or row.name in named, row.name


def test_weights_of_the_hub_are_named_with_the_command_that_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(Selection("paper", "", (42,), tmp_path))
    needs = needs_of([results.find("spikelm_t1", "sum/xsum")], Timings([]))
    monkeypatch.setattr(showing, "_at_hand", lambda path: False)
    text = shown(needs)
    assert "hf download facebook/bart-base --revision aadd2ab0" in text
    monkeypatch.setattr(showing, "_at_hand", lambda path: True)
    assert "hf download" not in shown(needs)


def test_estimates_prefer_the_same_system_then_the_same_kind_by_steps() -> None:
    def told(neuron: str, T: int, seconds: float, steps: int) -> Result:
        config = pretraining_of(load_config([f"neuron={neuron}", f"T={T}", "scale=smoke"]))
        return made_up(seconds=seconds, steps=steps, config=config)

    timings = Timings([told("lif", 4, 100.0, 12), told("lif", 4, 120.0, 12), told("psn", 4, 48.0, 12)])
    assert timings.about(pretraining_of(config_of("lif_bert"))) == 100.0, "the quicker of two"
    # median of 100, 120 and 48 over 12 steps and T=4, times 12 steps and T=1
    assert timings.about(pretraining_of(config_of("spikelm_t1"))) == pytest.approx(100.0 / 4)
    assert Timings([]).about(pretraining_of(config_of("lif_bert"))) is None
    both = Timings([told("lif", 4, 10.0, 12)], [told("lif", 4, 100.0, 12)])
    assert both.about(pretraining_of(config_of("lif_bert"))) == 10.0, "this machine's"
    assert Timings([], [told("lif", 4, 100.0, 12)]).about(pretraining_of(config_of("lif_bert"))) == 100.0


def test_jobs_are_the_missing_runs_in_an_order_in_which_few_wait() -> None:
    missing = [Wanted(system, task, seed) for system in ("a", "b") for task in ("x", "y") for seed in (1, 2)]
    missing += [Wanted("c", "y", 1), Wanted("d", "x", 1, ("w=8",))]
    teacher = Wanted("b", "y", 2)
    jobs = job_lines(missing, {teacher})
    values = [[word.partition("=")[2] for word in job[:3]] for job in jobs]
    made = [Wanted(s, t, int(n), job[3:]) for (t, s, n), job in zip(values, jobs, strict=True)]
    assert sorted(made) == sorted(missing)
    assert made[0] == teacher, "others wait for it"
    tasks = [one.task for one in made[1:]]
    assert tasks == sorted(tasks), "jobs side by side are of different systems, which pretrain their own models"


def test_what_another_run_waits_for_is_known(selection: Selection) -> None:
    results = Results(selection)
    needs = needs_of([results.find(system, "glue/rte") for system in ("bert", "bit")], Timings([]))
    found = {need.title: need.needed for need in needs if need.config.task.name == "glue/rte"}
    assert found == {"glue/rte BERT": True, "glue/rte BiT": False}


def test_reproducing_hands_only_what_is_missing_to_a_sweep(
    selection: Selection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from spikelm.cli.report import main

    asked: list[list[str]] = []

    class Ended:
        def __init__(self, command: list[str], **kwargs: Any) -> None:
            asked.append(command)
            self.returncode = 0

        def __enter__(self) -> Ended:
            return self

        def __exit__(self, *args: object) -> None:
            return None

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Ended)
    for task in ("pretrain", "glue/rte"):
        finish(Results(selection).find("lif_bert", task))
    options = ["--scale", "smoke", "--source", "embedded", "--tasks", "glue/rte,glue/cola"]
    options += ["--runs-dir", str(selection.root), "--launcher", "joblib"]
    assert main(["reproduce", "table9", *options]) == 0
    (command,) = asked
    (file,) = selection.root.glob("sweeps/*/jobs.txt")
    jobs = {tuple(line.split()[:2]) for line in file.read_text().splitlines()}
    assert jobs == {
        ("task=glue/cola", "system=lif_bert_atan"),
        ("task=glue/rte", "system=lif_bert_atan"),
        ("task=glue/cola", "system=lif_bert"),
    }, "rte of LIF-BERT is finished"
    assert {f"hydra.sweeper.file={file}", "hydra/launcher=joblib", "scale=smoke"} <= set(command)
    asked.clear()
    assert main(["reproduce", "9", "--plan", *options]) == 0
    assert not asked, "a plan runs nothing"
    assert "runs" in capsys.readouterr().out


def test_the_overview_tells_every_run_that_finishes_once(tmp_path: Path) -> None:
    results = Results(Selection("smoke", "embedded", (42,), tmp_path))
    found = results.find("lif_bert", "glue/rte")
    console = Console(record=True, width=120)
    overview = Progress(needs_of([found], Timings([])), console)
    assert overview.look() == []
    finish(found, 12.0)
    assert [need.run.id for need in overview.look()] == [found.run.id]
    assert overview.look() == []
    console.print(overview.shown())
    title, bar, first = console.export_text().splitlines()[:3]
    assert "1 of 2 runs" in title
    assert set(bar.strip()) <= set("━╸╺"), "a line of its own"
    assert first.startswith("finished")
    assert open_run(found.config, tmp_path).finished


def test_the_time_left_trusts_the_plan_until_enough_is_done(
    selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(selection)
    wanted = [results.find("bert", f"glue/{task}") for task in ("rte", "cola", "mrpc")]
    needs = [replace(need, seconds=3000.0) for need in needs_of(wanted, Timings([]))]
    now = [0.0]
    monkeypatch.setattr("spikelm.report.reproduce.progress.time.monotonic", lambda: now[0])
    overview = Progress(needs, Console(file=io.StringIO()), at_once=2)
    assert overview.left() == ", about 1.7 h left", "12000 seconds, two at a time"
    finish(wanted[0])
    now[0] = 3000.0  # twice as slow as planned
    overview.look()
    # (3000 + 1200 / 2) / (3000 + 1200) of 9000 seconds
    assert overview.left() == ", about 2.1 h left"


def test_what_is_made_again_counts_when_its_weights_are_there(selection: Selection) -> None:
    results = Results(selection)
    pretrained = results.find("bert", "pretrain")
    finish(pretrained, weights=False)
    overview = Progress(needs_of([results.find("bert", "glue/rte")], Timings([])), Console(file=io.StringIO()))
    assert len(overview.todo) == 2
    assert overview.look() == []
    (pretrained.run.directory / "model").mkdir()
    assert [need.title for need in overview.look()] == ["pretrain BERT"]
