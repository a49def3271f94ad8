"""Which launcher a reproduction takes, by what was asked for and by what the machine has."""

from __future__ import annotations

import pytest
import torch

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.errors import ConfigError
from spikelm.report.reproduce import launcher as launching
from spikelm.report.reproduce.launcher import chosen_launcher, jobs_at_once

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
    assert jobs_at_once(launcher, BackboneConfig(name="bert_mini", layers=2, hidden=128)) == jobs
