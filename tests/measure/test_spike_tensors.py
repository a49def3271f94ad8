"""What holds spikes, or a sum of spikes, is told from what only looks like it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spikelm.measure.spike_tensors import spike_rate, sum_rate


@settings(max_examples=60, deadline=None)
@given(T=st.integers(1, 4), width=st.integers(4, 9), seed=st.integers(0, 10**6), data=st.data())
def test_spike_rate_knows_spikes(T: int, width: int, seed: int, data: st.DataObject) -> None:
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(-1, 2, (T, 3, width), generator=generator)
    levels[:, 0, :3] = torch.tensor([-1, 0, 1])
    x = (levels * (0.1 + torch.rand(T, 1, 1, generator=generator))).flatten(0, 1)
    assert spike_rate(x, T) == pytest.approx(float((levels != 0).double().mean()))
    place = data.draw(st.integers(0, x.numel() - 1))
    x.view(-1)[place] = data.draw(st.sampled_from([1.5, -2.0, 1e-3, float("nan"), float("inf")]))
    assert spike_rate(x, T) is None


def test_spike_rate_is_not_fooled_by_coincidence() -> None:
    assert spike_rate(torch.randn(4, 1), 4) is None  # one value a step has one magnitude
    assert spike_rate(torch.tensor([[0.0, 0.3], [0.7, 0.0]]), 2) is None  # nor do two say more
    assert spike_rate(torch.tensor([[0.0, torch.inf, 0.0]]), 1) is None
    assert spike_rate(torch.full((4, 6), 0.25), 2) is None  # constant
    assert spike_rate(torch.zeros(4, 6), 2) == 0.0
    two_steps = torch.tensor([[1.0, 0, 1], [2.0, 0, -2]])
    assert spike_rate(two_steps, 2) == pytest.approx(4 / 6)
    assert spike_rate(two_steps, 1) is None  # two amplitudes in one step


def test_sums_are_whole_numbers_up_to_a_most() -> None:
    assert sum_rate(torch.tensor([0.0, 1, 3, 2]), 3) == 1.5
    assert sum_rate(torch.tensor([0.0, 1, 4, 2]), 3) is None
    assert sum_rate(torch.tensor([0.0, -1, 1, 2]), 3) is None
    assert sum_rate(torch.tensor([0.0, 1, 1.5, 2]), 3) is None
    assert sum_rate(torch.tensor([0.0, 1, 3, 2]), 1) is None, "other models' residuals are not made of spikes"
