"""The GPUs that nvidia-smi names, and those of them that CUDA_VISIBLE_DEVICES lets through."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from spikelm.machine import gpus as gpus_module
from spikelm.machine.gpus import DriverAnswer, ask_driver, visible

ANSWER = """\
0, GPU-aa11, NVIDIA A100-SXM4-80GB, 81920, 550.54.15
1, GPU-bb22, NVIDIA A100-SXM4-80GB, 81920, 550.54.15
2, GPU-cc33, NVIDIA GeForce RTX 4090, 24564, 550.54.15
"""


@pytest.mark.parametrize(
    ("chosen", "memory"),
    [
        (None, [85.9, 85.9, 25.8]),
        ("2", [25.8]),
        ("2,0", [25.8, 85.9]),
        ("GPU-cc", [25.8]),
        ("", []),
        ("0,7,1", [85.9]),
    ],
)
def test_visible_gpus(chosen: str | None, memory: list[float]) -> None:
    assert [round(gpu.memory_gb, 1) for gpu in visible(ANSWER, chosen)] == memory


def test_memory_that_is_not_told() -> None:
    (gpu,) = visible("0, GPU-aa11, NVIDIA GB10, [N/A], 580.1\n", None)
    assert (gpu.name, gpu.memory_gb, gpu.driver) == ("NVIDIA GB10", 0.0, "580.1")


def _nvidia_smi(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> DriverAnswer:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    ask_driver.cache_clear()
    answer = ask_driver()
    ask_driver.cache_clear()
    return answer


def test_what_the_driver_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = _nvidia_smi(tmp_path, "echo 0, GPU-aa11, NVIDIA H100, 81559, 560.35", monkeypatch)
    assert [gpu.name for gpu in answer.gpus] == ["NVIDIA H100"]
    assert answer.trouble is None
    failed = _nvidia_smi(tmp_path, "echo cannot talk to the driver; exit 9", monkeypatch)
    assert failed == DriverAnswer(trouble="cannot talk to the driver")


def test_a_driver_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus_module, "PATIENCE", 0.3)
    started = time.monotonic()
    answer = _nvidia_smi(tmp_path, "exec sleep 30", monkeypatch)
    assert time.monotonic() - started < 5
    assert answer.gpus == ()
    assert "did not answer" in (answer.trouble or "") or "timed out" in (answer.trouble or "")
