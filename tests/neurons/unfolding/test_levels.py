"""A quantised activation: its levels, its first step, and the bits it is counted by."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden import assert_unfolds

from spikelm.neurons.unfolding.levels import Levels

RANGES = {3: (-1, 1), 4: (-2, 1), 8: (-4, 3), 16: (-8, 7)}


@pytest.mark.parametrize("levels", list(RANGES))
def test_levels_and_bits(levels: Any) -> None:
    neuron = Levels(2, levels=levels)
    x = 3 * torch.randn(2, 8, 4, 32)
    neuron(x)
    y = neuron(10 * x)
    n = (y / neuron.alpha.view(2, 1, 1, 1)).round()
    assert (int(n.min()), int(n.max())) == RANGES[levels]
    steps = assert_unfolds(neuron, 10 * x)
    bits = [abs(int(number)).bit_count() for number in n.flatten().tolist()]
    assert int((steps != 0).sum()) == sum(bits)
    assert len(steps) == {3: 1, 4: 2, 8: 3, 16: 4}[levels]


def test_the_first_step_is_that_of_lsq_and_it_learns() -> None:
    neuron = Levels(1, levels=8)
    x = torch.randn(1, 16, 8)
    neuron(x).square().sum().backward()
    assert float(neuron.alpha.detach()) == pytest.approx(2 * float(x.abs().mean()) / math.sqrt(3), rel=1e-6)
    assert neuron.alpha.grad is not None
