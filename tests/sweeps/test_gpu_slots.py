"""Jobs side by side have a GPU each: by the locks alone, and in a sweep of Hydra's."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from fake_driver import UUIDS, forget_gpus, pretend_gpus

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.sweeps import gpu_slots

CLAIM = """
import os, sys, time
from spikelm.sweeps.gpu_slots import claim
claim(int(sys.argv[1]), lambda text: print(text, flush=True))
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.readline()
claim(int(sys.argv[1]), print)
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.readline()
"""


class Claimer:
    """A process that claims GPUs and keeps them until it is told to end."""

    def __init__(self, count: int = 1) -> None:
        command = [sys.executable, "-c", CLAIM, str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Three GPUs, and locks of this test's own."""
    pretend_gpus(3, tmp_path, monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield monkeypatch
    forget_gpus()


def test_processes_have_gpus_of_their_own_and_a_dead_one_gives_its_back(machine: pytest.MonkeyPatch) -> None:
    claimers = [Claimer() for _ in range(3)]
    claimed = [claimer.said() for claimer in claimers]
    assert sorted(claimed) == UUIDS[:3]
    late = Claimer()
    assert late.said() == "waiting for 1 free GPU of 3"
    claimers[1].go_on()
    assert claimers[1].said() == claimed[1], "the next job of a process has the same GPU: CUDA cannot change it"
    claimers[0].kill()
    assert late.said() == claimed[0]
    for claimer in (*claimers, late):
        claimer.kill()


def test_a_choice_from_outside_is_kept_to_and_several_gpus_are_claimed_at_once(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    both = Claimer(2)
    assert both.said() == f"{UUIDS[2]},{UUIDS[0]}"
    late = Claimer()
    assert late.said() == "waiting for 1 free GPU of 2", "the GPU 1 is not ours"
    both.kill()
    assert late.said() in (UUIDS[0], UUIDS[2])
    late.kill()


def test_what_cannot_be_claimed_is_refused(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"trainer\.devices=4, but there are 3 GPUs"):
        gpu_slots.claim(4, print)
    machine.setattr(gpu_slots, "_held", [object()])
    with pytest.raises(ConfigError, match="jobs side by side have equally many"):
        gpu_slots.claim(2, print)


def test_runs_on_a_cpu_and_dry_runs_claim_nothing(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(gpu_slots, "claim", lambda count, tell: pytest.fail("claimed"))
    for words in (["trainer.accelerator=cpu"], ["dry_run=true"]):
        gpu_slots.claim_for(load_config(["scale=smoke", *words]), print)


SEEN = """
import os, time
import spikelm.runs.experiment as experiment
from spikelm.errors import SpikeLMError

def run_experiment(config, console, whole=False):
    from spikelm.config.devices import device_count
    started = time.time()
    time.sleep(1.0)
    with open(os.environ["SEEN"], "a") as file:
        who = (config.seed, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid(), device_count(config))
        file.write(" ".join(map(str, (*who, started, time.time()))) + "\\n")
    raise SpikeLMError("seen")

experiment.run_experiment = run_experiment
"""


def test_a_sweep_puts_one_job_on_each_gpu(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(SEEN))
    seen = tmp_path / "seen.txt"
    machine.setenv("SEEN", str(seen))
    machine.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    words = ["-m", "hydra/launcher=parallel", "scale=smoke", "task=pretrain", "seed=1,2,3,4,5", f"runs_dir={tmp_path}"]
    done = subprocess.run([sys.executable, "-m", "spikelm.cli.main", *words], capture_output=True, text=True)
    jobs = [line.split() for line in seen.read_text().splitlines()]
    assert sorted(job[0] for job in jobs) == ["1", "2", "3", "4", "5"], done.stderr
    assert {job[1] for job in jobs} == set(UUIDS[:3]), "all are used"
    assert len({(job[1], job[2]) for job in jobs}) == 3, "a process keeps its GPU"
    assert {job[3] for job in jobs} == {"1"}, "and sees no other"
    for uuid in UUIDS[:3]:
        spans = sorted((float(job[4]), float(job[5])) for job in jobs if job[1] == uuid)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
