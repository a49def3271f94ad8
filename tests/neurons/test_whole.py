"""Whole numbers on a step: against plain torch operations with autograd, and what is kept for the backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.neurons.kernels import whole
from spikelm.neurons.kernels.packing import packed_of
from spikelm.neurons.kernels.spike_matmul import spike_linear
from spikelm.neurons.kernels.whole import WholeRule, numbers, whole_code

RULES = [
    WholeRule(-4, 4),
    WholeRule(-8, 7, half="up", passes="rounded"),
    WholeRule(0, 15, passes="rounded"),
    WholeRule(-255, 255, half="down"),
    WholeRule(-1, 1, passes="everywhere"),
]


def oracle(x: Tensor, step: Tensor, rule: WholeRule) -> Tensor:
    """The same by autograd: a straight-through rounding between clamps that pass the gradient at their ends."""
    q = x / step.detach()
    nearest = {
        "even": torch.round,
        "up": lambda u: torch.floor(u + 0.5),
        "down": lambda u: torch.sign(u) * torch.ceil(u.abs() - 0.5),
    }[rule.half](q.detach())
    if rule.passes == "rounded":
        level = (q + (nearest - q).detach()).clamp(rule.low, rule.high)
    elif rule.passes == "range":
        cut = q.clamp(rule.low, rule.high)
        level = cut + (nearest.clamp(rule.low, rule.high) - cut).detach()
    else:
        level = q + (nearest.clamp(rule.low, rule.high) - q).detach()
    return level * step.detach()


def drawn(T: int, tokens: bool, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.randn(T, 3, 2, 5, generator=draw, dtype=torch.float64)
    step = torch.rand(T, *((3, 2, 1) if tokens else (1, 1, 1)), generator=draw, dtype=torch.float64) + 0.1
    return x, step


@given(st.sampled_from(RULES), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
def test_it_is_the_same_in_torch_operations(rule: WholeRule, T: int, tokens: bool, seed: int) -> None:
    x, step = drawn(T, tokens, seed)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = whole_code(ours, step, rule), oracle(theirs, step, rule)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn_like(x)
    y.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(numbers(x, step, rule) * step, y.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_what_is_kept_gives_the_same_values_again(rule: WholeRule) -> None:
    x, step = drawn(2, True, 1)
    y = whole_code(x.requires_grad_(), step, rule)
    packed = packed_of(y.flatten(0, 1))
    assert packed is not None
    assert packed.levels.dtype == rule.dtype
    assert torch.equal(packed.floats(packed.levels, packed.alpha), y.detach())


@pytest.mark.parametrize("rule", RULES)
def test_a_linear_behind_it_has_the_gradient_of_a_plain_one(rule: WholeRule) -> None:
    x, step = drawn(1, False, 2)
    weight = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    again = weight.detach().clone().requires_grad_()
    spike_linear(whole_code(x.clone().requires_grad_(), step, rule), weight, None).square().sum().backward()
    torch.nn.functional.linear(oracle(x, step, rule), again).square().sum().backward()
    torch.testing.assert_close(weight.grad, again.grad)


def test_a_code_of_few_levels_is_kept_in_a_byte() -> None:
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    x = torch.randn(1, 64, 32, requires_grad=True)
    weight = torch.randn(16, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        spike_linear(whole_code(x, torch.full((1, 1, 1), 0.1), WholeRule(-4, 4)), weight, None)
    bytes_kept = {tensor.data_ptr(): tensor.nbytes for tensor in kept if tensor.data_ptr() != weight.data_ptr()}
    assert sum(bytes_kept.values()) <= x.numel() + 8, "n in one byte, for the neuron and the linear together"


@pytest.mark.parametrize("tokens", [False, True])
def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch, tokens: bool) -> None:
    results: list[Any] = []
    for size in (1 << 19, 7):
        monkeypatch.setattr(whole, "CHUNK", size)
        x, step = drawn(2, tokens, 3)
        y = whole_code(x.requires_grad_(), step, RULES[1])
        y.square().sum().backward()
        results.append((y.detach(), x.grad))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_learned_step_has_the_gradient_of_lsq() -> None:
    x, step = drawn(2, False, 4)
    rule = WholeRule(-8, 7)
    learned = step.clone().requires_grad_()
    upstream = torch.randn_like(x)
    whole_code(x, learned, rule).backward(upstream)
    q = x / step
    slope = torch.where(q < -8, torch.full_like(q, -8), torch.where(q > 7, torch.full_like(q, 7), q.round() - q))
    expected = (upstream * slope).sum((1, 2, 3)) / (7 * x[0].numel()) ** 0.5
    assert learned.grad is not None
    torch.testing.assert_close(learned.grad.flatten(), expected)
