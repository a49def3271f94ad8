"""More processes than cores are told of; GPUs, and as many as there are cores, are not."""

from __future__ import annotations

from typing import Any

import pytest

from spikelm.cli import main
from spikelm.config import devices
from spikelm.config.compose import compose_config, load_config
from spikelm.config.devices import crowding


@pytest.mark.parametrize(("asked", "cores", "told"), [(8, 2, True), (2, 2, False), (2, 1, True), (1, 1, False)])
def test_more_processes_than_cores_are_told(
    asked: int, cores: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "usable_cores", lambda: cores)
    said = crowding(load_config([f"trainer.devices={asked}"]))
    assert bool(said) is told
    assert (f"fix: trainer.devices={cores}" in said) is told


@pytest.mark.usefixtures("eight_gpus")
def test_gpus_are_no_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "usable_cores", lambda: 2)
    assert crowding(load_config(["trainer.devices=8"])) == ""
    assert crowding(load_config(["trainer.devices=8", "trainer.accelerator=cpu"]))


@pytest.mark.parametrize(("dry_run", "warned"), [(False, True), (True, False)])
def test_a_job_warns_before_it_trains(
    dry_run: bool, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    class Mode:
        mode = RunMode.RUN

    monkeypatch.setattr(devices, "usable_cores", lambda: 2)
    monkeypatch.setattr(HydraConfig, "get", staticmethod(lambda: Mode))
    done: list[Any] = []
    monkeypatch.setattr(main, "_train", done.append)
    monkeypatch.setattr(main, "_plan", done.append)
    main.job(compose_config(["trainer.devices=8", f"dry_run={str(dry_run).lower()}"]))
    assert len(done) == 1
    assert ("8 processes" in capsys.readouterr().err) is warned
