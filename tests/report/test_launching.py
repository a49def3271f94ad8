"""Which launcher a reproduction takes, by what was asked for and by what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from canned import finish
from fake_driver import forget_gpus, pretend_gpus
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.report.query.selection import Results, SelectedRun, Selection
from spikelm.report.reproduce import launcher as launching
from spikelm.report.reproduce.launcher import chosen_launcher, jobs_at_once
from spikelm.report.reproduce.needs import needs_of
from spikelm.report.reproduce.phases import phases
from spikelm.runs.timings import Timings

SIDE_BY_SIDE = ["hydra/launcher=parallel", "trainer=cpu"]
BASIC = ["hydra/launcher=basic"]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Four cores, no accelerator, joblib's launcher installed."""
    monkeypatch.setattr(launching, "usable_cores", lambda: 4)
    monkeypatch.setattr(launching, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    return monkeypatch


@pytest.mark.parametrize(
    ("overrides", "launcher"),
    [
        (["k=3"], SIDE_BY_SIDE),
        (["trainer.precision=bf16-mixed"], SIDE_BY_SIDE),
        (["trainer.accelerator=cpu"], SIDE_BY_SIDE),
        (["trainer=cpu"], SIDE_BY_SIDE[:1]),
        (["trainer.accelerator=gpu"], BASIC),
        (["trainer=ours"], BASIC),
        (["trainer=cpu", "trainer.devices=2"], BASIC),
    ],
)
def test_on_cores_alone_runs_go_side_by_side(overrides: list[str], launcher: list[str]) -> None:
    assert chosen_launcher("", overrides) == (launcher, overrides)


def test_one_after_the_other_where_side_by_side_brings_nothing(machine: pytest.MonkeyPatch) -> None:
    for name, value in (("usable_cores", lambda: 1), ("find_spec", lambda name: None)):
        with machine.context() as without:
            without.setattr(launching, name, value)
            assert chosen_launcher("", [])[0] == BASIC
    machine.setattr(torch.accelerator, "is_available", lambda: True)
    assert chosen_launcher("", [])[0] == BASIC
    assert chosen_launcher("", ["trainer=cpu"])[0] == SIDE_BY_SIDE[:1]


def test_what_is_asked_for_is_taken_with_its_settings() -> None:
    setting = "hydra.launcher.partition=gpu"
    assert chosen_launcher("slurm", [setting, "k=3"]) == (["hydra/launcher=slurm", setting], ["k=3"])
    with pytest.raises(ConfigError, match="setting of a launcher"):
        chosen_launcher("", [setting])


@pytest.mark.parametrize(
    ("launcher", "jobs"),
    [
        (BASIC, 1),
        (SIDE_BY_SIDE, 4),
        ([*SIDE_BY_SIDE, "hydra.launcher.n_jobs=3"], 3),
        (["hydra/launcher=slurm"], 1),
    ],
)
def test_how_many_runs_go_at_a_time_is_known_on_one_machine(
    launcher: list[str], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spikelm.machine.cpu.usable_cores", lambda: 4)
    assert jobs_at_once(launcher, load_config(["backbone=bert_mini"])) == jobs


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize(
    ("overrides", "launcher", "jobs"),
    [
        ([], SIDE_BY_SIDE[:1], 8),
        (["trainer.devices=2"], SIDE_BY_SIDE[:1], 4),
        (["trainer.devices=8"], BASIC, 1),
        (["trainer.accelerator=cpu"], SIDE_BY_SIDE, 4),
    ],
)
def test_on_several_gpus_as_many_runs_go_side_by_side_as_have_their_devices(
    overrides: list[str], launcher: list[str], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spikelm.machine.cpu.usable_cores", lambda: 4)
    assert chosen_launcher("", overrides) == (launcher, overrides)
    assert jobs_at_once(launcher, load_config(["scale=smoke", *overrides])) == jobs


def test_a_single_gpu_is_used_by_one_run_after_the_other(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_gpus(1, tmp_path, machine)
    machine.setattr(torch.accelerator, "is_available", lambda: True)
    assert chosen_launcher("", [])[0] == BASIC
    forget_gpus()


def names(runs: list[SelectedRun]) -> set[tuple[str, str]]:
    return {(one.wanted.system, one.wanted.task) for one in runs}


@pytest.mark.usefixtures("eight_gpus")
def test_what_trains_on_all_gpus_goes_first_then_one_run_per_gpu(tmp_path: Path) -> None:
    results = Results(Selection("smoke", "embedded", (42,), tmp_path))
    wanted = [("spikelm_t1", "pretrain")]
    wanted += [(system, f"glue/{task}") for system in ("spikelm_t1", "lif_bert") for task in ("rte", "cola")]
    selected = [results.find(*one) for one in wanted]
    needs = needs_of(selected, Timings([]))
    assert [need.wide for need in needs if need.config.task.name == "pretrain"] == [True, True]
    first, then = phases(selected, needs, ["hydra/launcher=parallel"])
    assert first.launcher == BASIC
    assert names(first.runs) == {("spikelm_t1", "pretrain"), ("lif_bert", "glue/rte")}, "with it LIF-BERT's pretraining"
    assert names(then.runs) == {("spikelm_t1", "glue/rte"), ("spikelm_t1", "glue/cola"), ("lif_bert", "glue/cola")}
    assert then.launcher == ["hydra/launcher=parallel"]
    console = Console(record=True, width=120)
    assert then.possible(console) == [], "nothing has been pretrained"
    assert "left out: 3 runs that need one that failed" in console.export_text()
    finish(results.find("lif_bert", "pretrain"))
    assert names(then.possible(console)) == {("lif_bert", "glue/cola")}


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize(
    ("launcher", "overrides"),
    [(["hydra/launcher=slurm"], ()), (BASIC, ()), (["hydra/launcher=parallel"], ("trainer.devices=1",))],
)
def test_other_launchers_and_a_stated_number_of_devices_take_all_runs_as_one_sweep(
    launcher: list[str], overrides: tuple[str, ...], tmp_path: Path
) -> None:
    results = Results(Selection("smoke", "embedded", (42,), tmp_path, overrides))
    selected = [results.find("lif_bert", task) for task in ("pretrain", "glue/rte")]
    (phase,) = phases(selected, needs_of(selected, Timings([])), launcher)
    assert phase.runs == selected
    assert phase.launcher == launcher
