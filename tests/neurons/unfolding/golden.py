"""Tensors of the public implementations, where the folder that holds them is beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from spikelm.neurons import Neuron

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "field" / "golden"

needs_golden = pytest.mark.skipif(not FOLDER.is_dir(), reason="no folder shared/field/golden beside the project")


def golden(name: str) -> dict[str, Tensor]:
    """The tensors of a file by their names."""
    return load_file(FOLDER / f"{name}.safetensors")


def assert_unfolds(neuron: Neuron, x: Tensor) -> Tensor:
    """The spikes of each virtual step, after a check that they are such and that they add up to the output."""
    steps = neuron.unfold(x)
    assert steps.shape[1:] == x.shape
    torch.testing.assert_close(steps.sum(0), neuron(x), rtol=1e-6, atol=1e-6)
    size = steps.abs() if neuron.per_token else steps.abs().flatten(2)
    high = size.amax(-1, keepdim=True)
    assert bool(((size == 0) | (size == high)).all()), "a virtual step has more than one height"
    return steps
