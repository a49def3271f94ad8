"""Signed binary place values: levels, gradient and bits, on the scale of a token or of the layer."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from golden import assert_unfolds
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.errors import SpikeLMError
from spikelm.neurons.unfolding.place import Place

Scale = Literal["token", "layer"]
SCALES: list[Scale] = ["token", "layer"]
scales = st.sampled_from(SCALES)
seeds = st.integers(0, 10**6)


def values(T: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(T, 2, 3, 6, generator=draw, dtype=torch.float64)


def fitted(T: int, width: int, scale: Scale, seed: int) -> Place:
    """Its first batch is another than the one it then reads, so that some values are out of a layer's range."""
    neuron = Place(T, width=width, scale=scale)
    neuron(values(T, seed + 1))
    return neuron.eval()


def by_autograd(neuron: Place, x: Tensor) -> Tensor:
    top = 2**neuron.width - 1
    if neuron.scale == "token":
        step = (x.detach().abs().max(-1, keepdim=True).values / top).clamp_min(1e-12)
    else:
        step = (neuron.alpha.to(x.dtype) / top).view(-1, 1, 1, 1)
    u = x / step
    rounded = u + (torch.round(u) - u).detach()  # the clamp after it passes the gradient at its ends
    return rounded.clamp(-top, top) * step


@given(scale=scales, width=st.integers(1, 16), T=st.integers(1, 3), seed=seeds)
def test_it_is_the_same_in_torch_operations(scale: Scale, width: int, T: int, seed: int) -> None:
    neuron = fitted(T, width, scale, seed)
    x = values(T, seed).requires_grad_()
    again = x.detach().clone().requires_grad_()
    out, expected = neuron(x), by_autograd(neuron, again)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    grad = values(T, seed + 2)
    out.backward(grad)
    expected.backward(grad)
    assert x.grad is not None
    assert again.grad is not None
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-9, atol=1e-9)
    if scale == "token":
        assert torch.equal(x.grad, grad)


@given(scale=scales, width=st.integers(1, 16), T=st.integers(1, 3), seed=seeds)
def test_the_output_unfolds_into_its_bits(scale: Scale, width: int, T: int, seed: int) -> None:
    neuron = fitted(T, width, scale, seed)
    assert neuron.per_token is (scale == "token")
    assert neuron.unfolds
    x = values(T, seed)
    x[0, 0, 0] = 0.0
    steps = assert_unfolds(neuron, x)
    torch.testing.assert_close(steps.sum(0), neuron(x), rtol=1e-12, atol=1e-12)
    assert steps.shape[0] == width
    step = neuron.step(x)
    for bit, spikes in enumerate(reversed(steps)):
        heights = 2**bit * step.expand_as(x)
        assert torch.equal(spikes.abs(), torch.where(spikes != 0, heights, torch.zeros_like(heights)))
    assert bool((steps * x >= 0).all()), "a spike against the sign of its value"
    n = (neuron(x) / step).round().abs().long().flatten().tolist()
    assert (steps != 0).sum(0).flatten().tolist() == [number.bit_count() for number in n]


@given(width=st.integers(1, 16), seed=seeds)
def test_a_token_is_within_half_a_step_and_keeps_its_largest_value(width: int, seed: int) -> None:
    x = values(2, seed)
    neuron = Place(2, width=width)
    out, step = neuron(x), neuron.step(x)
    assert bool(((out - x).abs() <= step * (0.5 + 1e-9)).all())
    torch.testing.assert_close(out.abs().amax(-1), x.abs().amax(-1), rtol=1e-12, atol=0)


def test_a_layer_clips_and_stops_the_gradient_beyond_half_a_step() -> None:
    neuron = Place(1, width=2, scale="layer")
    neuron(torch.tensor([[[3.0, -1.0]]]))
    assert neuron.alpha.tolist() == [3.0]
    assert neuron.ready
    x = torch.tensor([[[-9.0, -3.4, -0.5, 0.4, 1.5, 3.4, 3.6]]]).requires_grad_()
    out = neuron(x)
    out.sum().backward()
    assert x.grad is not None
    assert out.flatten().tolist() == [-3.0, -3.0, 0.0, 0.0, 2.0, 3.0, 3.0]
    assert x.grad.flatten().tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert neuron.alpha.tolist() == [3.0], "frozen after the first batch"


def test_a_layer_has_a_scale_of_each_time_step() -> None:
    neuron = Place(2, scale="layer")
    neuron(torch.tensor([[[1.0, -2.0]], [[8.0, 4.0]]]))
    assert neuron.alpha.tolist() == [2.0, 8.0]
    other = Place(2, scale="layer")
    other.load_state_dict(neuron.state_dict())
    assert other.ready
    assert other.alpha.tolist() == [2.0, 8.0]
    neuron.reset_parameters()
    with pytest.raises(SpikeLMError, match="not set"):
        neuron.eval()(torch.ones(2, 1, 2))


def test_a_token_needs_no_first_batch() -> None:
    assert Place(1).ready
    assert Place(1).eval()(torch.ones(1, 1, 2)).tolist() == [[[1.0, 1.0]]]


@pytest.mark.parametrize("scale", SCALES)
def test_zeros_stay_zero(scale: Scale) -> None:
    neuron = Place(1, scale=scale)
    x = torch.zeros(1, 2, 4)
    assert not neuron(x).any()
    assert not assert_unfolds(neuron, x).any()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_single(dtype: torch.dtype, scale: Scale) -> None:
    x = torch.randn(2, 2, 3, 8).to(dtype).requires_grad_()
    neuron = Place(2, scale=scale)
    out = neuron(x)
    assert torch.equal(out, neuron(x.detach().float()).to(dtype))
    assert neuron.unfold(x).dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
