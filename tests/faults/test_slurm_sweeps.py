"""Sweeps on a real Slurm of one node: the digits of other launchers, jobs that are taken away, jobs that fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import one_node
import pytest
from commands import SMALL
from test_kills import newest, outcome_of

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason='needs pip install "spikelm[launchers]"')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(bool(one_node.missing()), reason=one_node.missing() or "Slurm is there"),
]
PROJECT = Path(__file__).resolve().parents[2]
SLURM = ("hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1", "hydra.launcher.partition=low")
STEPS = (*SMALL, "task=pretrain", "trainer.log_every=1", "trainer.checkpoint_every=1000")
PATIENCE = 900.0  # seconds, on a busy machine


class Sweep:
    """A running `spikelm-run -m`, its output in a file."""

    def __init__(self, log: Path, env: dict[str, str], *args: str) -> None:
        self.log = log
        self.env = {**os.environ, **env, "PYTHONPATH": str(PROJECT)}
        with open(log, "w") as file:
            command = [sys.executable, "-m", "spikelm.cli.main", "-m", *args]
            self.process = subprocess.Popen(command, env=self.env, stdout=file, stderr=subprocess.STDOUT)

    def until(self, found: Callable[[], Any]) -> Any:
        """Wait for something to be true."""
        end = time.monotonic() + PATIENCE
        while not (value := found()):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, f"{self.said}\n{self.slurm('squeue', '--states=all')}"
            time.sleep(0.05)
        return value

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def slurm(self, *words: str) -> str:
        return subprocess.run(words, env=self.env, capture_output=True, text=True).stdout

    def signal(self, name: str, job: str) -> None:
        """Not waited for: scancel asks again and again whether a job that is queued anew has got it."""
        subprocess.Popen(["scancel", f"--signal={name}", job], env=self.env, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing goes on after a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.slurm("scancel", "--partition=low")

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def id(self) -> str:
        return str(self.until(lambda: re.search(r"^Slurm job (\d+):", self.said, re.MULTILINE))[1])


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    with one_node.clusters(cpus=2) as found:
        yield found


def outcomes(runs: Path) -> dict[str, Any]:
    """Every run of a store, by its folder."""
    return {str(path.parent.relative_to(runs)): outcome_of(path) for path in runs.glob("*/*/result.json")}


def seed_of(config: Path) -> int:
    found = re.search(r"^seed: (\d+)$", config.read_text(), re.MULTILINE)
    return int(found[1]) if found else -1


def training(runs: Path, seed: int) -> bool:
    """Whether the training of a seed has begun."""
    for path in runs.glob("pretrain/*/metrics.csv"):
        config = path.with_name("config.yaml")
        if config.exists() and seed_of(config) == seed and "train/loss" in path.read_text():
            return True
    return False


def test_the_same_digits_from_every_launcher_and_number_of_workers(env: dict[str, str], tmp_path: Path) -> None:
    ways = {
        "basic": (),
        "joblib": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "trainer.workers=1"),
        "slurm": (*SLURM, "trainer.workers=0"),
        "slurm, 2 workers": (*SLURM, "trainer.workers=2"),
    }
    found = {}
    for name, way in ways.items():
        runs = tmp_path / name.replace(", ", "-").replace(" ", "-") / "runs"
        planted = {"WANDB_API_KEY": "planted" * 5 + "key42"}
        args = (*SMALL, "task=glue/rte", "neuron=bispike,lif", f"runs_dir={runs}", *way)
        with Sweep(tmp_path / f"log-{runs.parent.name}", {**env, **planted}, *args) as sweep:
            assert sweep.wait() == 0, sweep.said
        assert "2 of 2 jobs finished" in sweep.said
        files = [path for path in runs.rglob("*") if path.is_file()]
        assert not [path for path in files if planted["WANDB_API_KEY"].encode() in path.read_bytes()]
        found[name] = outcomes(runs)
    assert len(found["basic"]) == 4, "two pretrainings, two fine-tunings"
    for name, one in found.items():
        assert one == found["basic"], name


def test_jobs_that_are_taken_away_go_on_where_they_were(env: dict[str, str], tmp_path: Path) -> None:
    """A signal of each kind, a requeue by the administrator, a job that preempts: a job each, hit in mid-training."""
    ways: list[Callable[[Sweep, str], object]] = [
        lambda sweep, job: sweep.signal("USR1", job),
        lambda sweep, job: sweep.signal("TERM", job),
        lambda sweep, job: sweep.signal("USR2", job),  # submitit's: before the time limit
        lambda sweep, job: sweep.slurm("scontrol", "requeue", job),
        lambda sweep, job: sweep.slurm(
            "sbatch", "--partition=high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 5"
        ),
    ]
    args = (*STEPS, "pretrain.steps=30", "seed=1,2,3,4,5")
    with Sweep(tmp_path / "plain", env, *args, f"runs_dir={tmp_path / 'plain-runs'}") as plain:
        assert plain.wait() == 0, plain.said
    runs = tmp_path / "runs"
    steps = []
    with Sweep(tmp_path / "log", env, *args, f"runs_dir={runs}", *SLURM, "hydra.launcher.array_parallelism=1") as sweep:
        for n, hit in enumerate(ways):
            sweep.until(lambda seed=n + 1: training(runs, seed))
            hit(sweep, f"{sweep.id}_{n}")
        assert sweep.wait() == 0, sweep.said
    assert "5 of 5 jobs finished" in sweep.said
    for n in range(len(ways)):
        (log,) = runs.glob(f"sweeps/*/.submitit/{sweep.id}_{n}/*.out")
        found = re.search(r"going on from step (\d+) ", log.read_text())
        assert found, f"job {n} was not taken away, or began anew"
        steps.append(int(found[1]))
    assert all(0 < step < 30 for step in steps)
    assert outcomes(runs) == outcomes(tmp_path / "plain-runs")
    print(f"went on from steps {steps} of 30")


def test_jobs_that_fail_or_are_cancelled_are_named(env: dict[str, str], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    args = (*STEPS, "pretrain.steps=40", "pretrain.lr=1e-4,1e30,2e-4", f"runs_dir={runs}", *SLURM)
    with Sweep(tmp_path / "log", env, *args, "hydra.launcher.array_parallelism=1") as sweep:
        sweep.until(lambda: newest(runs, "pretrain") or list(runs.glob("pretrain/*/metrics.csv")))
        sweep.slurm("scancel", f"{sweep.id}_0")
        assert sweep.wait() == 1
    said = " ".join(sweep.said.split())
    assert "1 of 3 jobs finished" in said
    assert re.search(r"job 0 failed: Slurm job \d+_0 ended without a result: CANCELLED", said)
    assert "job 1 failed: the loss is nan" in said
    retried = re.findall(r"^  retry: spikelm-run .*pretrain\.lr=(\S+)", sweep.said, re.MULTILINE)
    assert retried == ["0.0001", "1e+30"]
    records = [json.loads(path.read_text()) for path in runs.glob("sweeps/*/*/job.json")]
    assert sorted((record["job"], record["status"]) for record in records) == [
        (0, "failed"), (1, "failed"), (2, "finished"),
    ]  # fmt: skip


def test_what_slurm_refuses_is_one_line(env: dict[str, str], tmp_path: Path) -> None:
    args = (*STEPS, "seed=1,2", f"runs_dir={tmp_path}", "hydra/launcher=slurm", "hydra.launcher.partition=nowhere")
    with Sweep(tmp_path / "log", env, *args) as sweep:
        assert sweep.wait() == 1
    assert "error: Slurm took no job" in sweep.said
    assert "invalid partition" in sweep.said
    assert "Traceback" not in sweep.said
