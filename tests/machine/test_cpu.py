"""CPU settings: the heap is kept without changing a digit, cores are those a process may use, jobs fit them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spikelm.config.compose import load_config
from spikelm.machine import cpu as processor
from spikelm.runs.identity import identity

FAULTS = """
import resource, torch
from spikelm.machine.cpu import keep_heap
{keep}
torch.set_num_threads(1)
def work():
    return float(torch.ones(16_000_000).mul_(3).sum())
for _ in range(8):  # until the heap has a place for it
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
total = [work() for _ in range(5)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, total[0])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_a_kept_heap_asks_for_no_new_pages_and_gives_the_same_digits() -> None:
    found = []
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    for keep in ("", "assert keep_heap()"):
        command = [sys.executable, "-c", FAULTS.format(keep=keep)]
        said = subprocess.run(command, env=plain, capture_output=True, text=True, check=True).stdout.split()
        found.append((int(said[0]), float(said[1])))
    (fresh, one), (kept, other) = found
    assert one == other
    assert kept * 20 < fresh


def test_cores_are_those_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(processor, "QUOTA", quota)
    bound = len(os.sched_getaffinity(0))
    assert processor.usable_cores() == bound  # no such file
    quota.write_text("max 100000\n")
    assert processor.usable_cores() == bound
    quota.write_text("50000 100000\n")
    assert processor.usable_cores() == 1
    quota.write_text("1600000 100000\n")
    assert processor.usable_cores() == min(bound, 16)


@pytest.mark.parametrize(
    ("parameters", "cores", "expected"), [(4e6, 2, (2, 1)), (4e6, 1, (1, 1)), (110e6, 8, (4, 2)), (110e6, 1, (1, 1))]
)
def test_jobs_and_threads_fill_the_cores(parameters: float, cores: int, expected: tuple[int, int]) -> None:
    assert processor.sweep_jobs(parameters, cores) == expected


def test_jobs_side_by_side_depend_on_the_model_also_where_its_sizes_are_those_of_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from hydra import compose, initialize_config_dir

    from spikelm.config.compose import register_schema
    from spikelm.config.paths import config_dir

    monkeypatch.setattr(processor, "usable_cores", lambda: 8)
    register_schema()
    for backbone, jobs in (
        (["scale=mini"], 8),
        (["backbone=bert_base"], 4),
        (["backbone=hf", f"backbone.path={tmp_path}"], 4),
    ):
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            found = compose("config", ["hydra/launcher=parallel", *backbone], return_hydra_config=True)
        assert found.hydra.launcher.n_jobs == jobs, backbone


def test_the_settings_make_no_other_run(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    plain, cpu = load_config(["task=glue/rte"]), load_config(["task=glue/rte", "trainer=cpu"])
    assert (cpu.trainer.accelerator, cpu.trainer.threads, cpu.trainer.keep_heap) == ("cpu", 3, True)
    assert identity(plain) == identity(cpu)
