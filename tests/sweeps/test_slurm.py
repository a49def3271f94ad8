"""Waiting for Slurm: what is lost, what only seems so, and what is asked back. The real one: tests/faults."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.types import RunMode

from spikelm.cli.command_line import precheck
from spikelm.config.compose import register_schema
from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.machine.signals import Stopped
from spikelm.sweeps import slurm
from spikelm.sweeps.slurm import Job

Story = Callable[[float, list[Job]], dict[str, str] | None]


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    for n in range(2):
        (tmp_path / f"7_{n}").mkdir()
    folders = [tmp_path / f"7_{n}" for n in range(2)]
    return [
        Job(n, ["T=1"], tmp_path / str(n), f"7_{n}", f / "result.pkl", f / "log.err") for n, f in enumerate(folders)
    ]


def play(jobs: list[Job], story: Story, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[int, str], float, list[str]]:
    """Wait with a clock of our own; how jobs ended, after how many seconds, and which were asked back."""
    clock, asked = [0.0], []

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        assert clock[0] < 1000, "waits for ever"

    def states(ids: list[str]) -> dict[str, str] | None:
        sleep(0.01)
        return story(clock[0], jobs)

    monkeypatch.setattr(slurm.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(slurm.time, "sleep", sleep)
    monkeypatch.setattr(slurm, "states", states)
    monkeypatch.setattr(slurm, "_requeue", lambda id: asked.append(id) or True)
    return slurm.wait(jobs, tell=lambda text: None), clock[0], asked


def test_a_cancelled_job_is_lost_and_its_sibling_is_waited_for(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    def story(now: float, jobs: list[Job]) -> dict[str, str]:
        if now > 200:
            jobs[1].result.touch()
        return {"7_0": "CANCELLED", "7_1": "RUNNING"}

    ends, took, asked = play(jobs, story, monkeypatch)
    assert ends == {0: "CANCELLED"}
    assert 200 < took < 240
    assert not asked


def test_a_requeued_job_passes_through_states_that_look_like_ends(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    def story(now: float, jobs: list[Job]) -> dict[str, str] | None:
        for job in jobs if now > 300 else []:
            job.result.touch()
        if 100 < now < 200:
            return None  # the controller is restarted
        return dict.fromkeys(("7_0", "7_1"), "PREEMPTED" if 10 < now < 20 else "PENDING" if now < 90 else "RUNNING")

    assert play(jobs, story, monkeypatch)[::2] == ({}, [])


def test_a_job_whose_node_went_away_is_asked_back_but_not_for_ever(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "RETURNS", 3)
    jobs[1].result.touch()
    ends, _, asked = play(jobs, lambda now, jobs: {"7_0": "NODE_FAIL"}, monkeypatch)
    assert asked == ["7_0"] * 3
    assert ends == {0: "NODE_FAIL"}


def test_what_slurm_has_forgotten_is_lost(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(jobs, lambda now, jobs: {}, monkeypatch)[0] == dict.fromkeys((0, 1), "unknown to Slurm")


def test_a_lost_job_has_a_record_with_its_last_words(jobs: list[Job]) -> None:
    jobs[0].log.write_text("one\nslurmstepd: error: CANCELLED\n")
    slurm._write_down(jobs[0], "CANCELLED")
    record = json.loads((jobs[0].folder / "job.json").read_text())
    assert record["status"] == "failed"
    assert record["overrides"] == ["T=1"]
    assert "Slurm job 7_0 ended without a result: CANCELLED" in record["error"]
    assert "slurmstepd: error: CANCELLED" in record["error"]


@pytest.mark.parametrize(
    ("number", "state", "code", "again"),
    [
        (signal.SIGTERM, "RUNNING", 75, True),
        (signal.SIGUSR1, "RUNNING", 75, True),
        (signal.SIGTERM, "COMPLETING", 75, False),  # cancelled, or requeued by Slurm itself
        (signal.SIGINT, "RUNNING", 130, False),
    ],
)
def test_a_stopped_job_is_queued_again_unless_slurm_decided(
    number: int, state: str, code: int, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, f"7_3|{state}\n7_4|RUNNING\n", "")

    monkeypatch.setattr(subprocess, "run", run)
    for name, value in {"JOB_ID": "9", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    with pytest.raises(SystemExit) as end, slurm.stoppable():
        raise Stopped(number)
    assert end.value.code == code
    assert (["scontrol", "requeue", "7_3"] in asked) == again


@pytest.mark.parametrize("name", ["slurm", "submitit_slurm", "parallel", "joblib"])
def test_a_launcher_that_is_not_installed_is_said_with_the_way_to_it(
    name: str, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hydra.core.config_store import ConfigStore

    assert precheck(["-m", "T=1"])  # by now Hydra has looked for plugins
    known = ConfigStore.instance().repo["hydra"]["launcher"]
    for file in ("submitit_slurm.yaml", "joblib.yaml"):
        monkeypatch.delitem(known, file, raising=False)
    with pytest.raises(ConfigError, match=r'is not installed\n  fix: pip install "spikelm\[launchers\]"'):
        precheck(["-m", f"hydra/launcher={name}", "T=1,2"])


def test_a_launcher_without_a_sweep_is_refused() -> None:
    with pytest.raises(ConfigError, match="add -m"):
        precheck(["hydra/launcher=basic"])


@pytest.mark.parametrize(
    ("overrides", "devices", "cores"),
    [
        (["scale=paper"], 1, 6),
        (["scale=paper", "trainer.devices=8"], 8, 48),
        (["scale=paper", "trainer.accelerator=cpu"], None, 6),
        (["scale=mini"], None, 2),
        (["scale=mini", "trainer.accelerator=gpu"], 1, 2),
    ],
)
def test_a_job_asks_for_the_gpus_and_cores_of_its_scale(overrides: list[str], devices: int | None, cores: int) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    register_schema()
    loader = ConfigLoaderImpl(create_config_search_path(str(config_dir())))
    words = ["hydra/launcher=slurm", *overrides]
    launcher = loader.load_configuration("config", words, RunMode.RUN, from_shell=False).hydra.launcher
    assert launcher.gpus_per_node == devices
    assert launcher.cpus_per_task == cores, "four loaders, the process that trains and one to spare, per device"
