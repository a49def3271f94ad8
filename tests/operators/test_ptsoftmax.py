"""PTsoftmax against Sorbet's tensors, against a loop, and what holds of every row."""

from __future__ import annotations

import math

import pytest
import torch
from golden import golden, needs_golden
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.operators.operator import all_powers, nearest_power, power_above, rounded_power
from spikelm.operators.ptsoftmax import PTSoftmax, partition


@needs_golden
@pytest.mark.parametrize("edge", ["", "edge_"])
def test_the_weights_are_the_released_ones(edge: str) -> None:
    g = golden("sorbet")
    x = g["pt.edge" if edge else "pt.x"]
    rounded, total, power = partition(x)
    ceiled = g[f"pt.{edge}scores_ceil"]
    assert torch.equal(x.ceil(), ceiled)
    assert torch.equal(rounded, torch.exp2(ceiled - ceiled.amax(-1, keepdim=True)))
    assert torch.equal(total, g[f"pt.{edge}partition"])
    assert torch.equal(power, g[f"pt.{edge}partition_pow2"])
    assert torch.equal(PTSoftmax()(x), g[f"pt.{edge}probs"])


@needs_golden
def test_the_released_gradient_is_zero_and_not_missing() -> None:
    g = golden("sorbet")
    x = g["pt.x"].clone().requires_grad_()
    PTSoftmax("released")(x).backward(g["pt.grad_out"])
    assert x.grad is not None
    assert torch.equal(x.grad, g["pt.grad_x"])


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=40))
def test_rows_sum_to_about_one_and_hold_powers_of_two(scores: list[float]) -> None:
    weights = PTSoftmax()(torch.tensor([scores]))
    assert bool(all_powers(weights))
    assert 0.75 <= float(weights.sum()) < 1.5


def test_what_is_masked_has_no_weight() -> None:
    scores = torch.tensor([[0.3, 2.5, torch.finfo(torch.float32).min, -torch.inf]])
    assert PTSoftmax()(scores)[0, 2:].tolist() == [0.0, 0.0]


def straight_through(x: Tensor, rounded: Tensor) -> Tensor:
    return x + (rounded - x).detach()


def test_the_gradient_is_that_of_a_loop_whose_roundings_pass_it_on() -> None:
    x = (4 * torch.randn(3, 2, 7, dtype=torch.float64)).requires_grad_()
    grad = torch.randn_like(x)
    PTSoftmax()(x).backward(grad)
    assert x.grad is not None
    for row, upstream, ours in zip(x.detach().reshape(-1, 7), grad.reshape(-1, 7), x.grad.reshape(-1, 7), strict=True):
        scores = row.clone().requires_grad_()
        ceiled = straight_through(scores, scores.ceil())
        powers = [2 ** (value - ceiled.max().detach()) for value in ceiled]
        total = torch.stack(powers).sum()
        value = float(total.detach())
        low, high = 2 ** math.floor(math.log2(value)), 2 ** math.ceil(math.log2(value))
        near = low if value - low < high - value else high
        divisor = straight_through(total, torch.tensor(float(near), dtype=torch.float64))
        torch.stack([power / divisor for power in powers]).backward(upstream)
        assert scores.grad is not None
        torch.testing.assert_close(ours, scores.grad)


def test_powers_of_two() -> None:
    x = torch.tensor([1.0, 1.49, 1.5, 2.0, 2.9, 3.0, 6.0, 0.3])
    assert nearest_power(x).tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 8.0, 0.25]
    assert power_above(x).tolist() == [1.0, 2.0, 2.0, 2.0, 4.0, 4.0, 8.0, 0.5]
    assert rounded_power(torch.tensor([0.0, -3.0, 1.4, 1.5])).tolist() == [0.0, -4.0, 1.0, 2.0]
    every = 2.0 ** torch.arange(-126, 128)
    for rule in (nearest_power, power_above, rounded_power):
        assert torch.equal(rule(every), every), rule.__name__
    assert bool(all_powers(-every))
    assert not bool(all_powers(torch.tensor([0.5, 0.75])))


def test_half_precision_comes_back_as_such() -> None:
    assert PTSoftmax()(torch.randn(2, 8).bfloat16()).dtype == torch.bfloat16
