"""The GPUs that nvidia-smi names, and those of them that CUDA_VISIBLE_DEVICES lets through."""

from __future__ import annotations

import pytest

from spikelm.machine.gpus import visible

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
