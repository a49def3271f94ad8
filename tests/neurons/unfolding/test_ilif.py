"""I-LIF against the tensors of SpikeYOLO and Spike-driven Transformer V3, and against autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden import assert_unfolds, golden, needs_golden
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.neurons.unfolding.ilif import ILIF

RELEASED: dict[str, dict[str, Any]] = {
    **{f"spikeyolo_D{levels}": {"levels": levels} for levels in (1, 2, 4, 8)},
    "sdtv3_base": {"normalized": True, "memory": False},
    "sdtv3_large": {"normalized": True, "memory": False, "half": "up"},
}
settings = st.fixed_dictionaries(
    {
        "memory": st.booleans(),
        "levels": st.integers(1, 9),
        "beta": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "signed": st.booleans(),
        "normalized": st.booleans(),
        "half": st.sampled_from(["even", "up"]),
    }
)


def halves(T: int, seed: int) -> Tensor:
    """Quarters from -12 to 12, so that many membranes are exact ties or at an end."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-48, 49, (T, 2, 3, 5), generator=draw, dtype=torch.float64) / 4


def by_autograd(neuron: ILIF, x: Tensor) -> Tensor:
    """The same in torch operations: a clamp passes the gradient at its ends, the rounding is straight-through."""
    top, least = neuron.levels, -neuron.levels if neuron.signed else 0
    beta = neuron.beta if neuron.memory else 0.0
    m, s, out = torch.zeros_like(x[0]), torch.zeros_like(x[0]), []
    for t in range(x.shape[0]):
        m = beta * (m - s) + x[t]
        if neuron.ties == "even":
            clamped = torch.clamp(m, least, top)
            s = torch.round(clamped).detach()
        else:
            clamped = torch.nn.functional.hardtanh(m, least, top)  # no gradient at its ends
            s = torch.floor(clamped + 0.5).detach()
        out.append(s + clamped - clamped.detach())
    return torch.stack(out) / (top if neuron.normalized else 1)


@needs_golden
@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.parametrize("edge", ["", "edge_"])
def test_counts_and_gradients_are_the_released_ones(edge: str, name: str) -> None:
    g = golden("ilif")
    x = g["edge" if edge else "x"].requires_grad_()
    neuron = ILIF(x.shape[0], **RELEASED[name])
    out = neuron(x)
    out.backward(g[f"{edge}grad_out"])
    assert x.grad is not None
    assert torch.equal(out, g[f"{edge}{name}.out"])
    assert torch.equal(x.grad, g[f"{edge}{name}.grad_x"])
    assert torch.equal(neuron.unfold(x).sum(0), g[f"{edge}{name}.out"])


@needs_golden
def test_every_released_tensor_is_compared() -> None:
    inputs = {"x", "grad_out", "edge", "edge_grad_out"}
    compared = {f"{e}{name}.{part}" for e in ("", "edge_") for name in RELEASED for part in ("out", "grad_x")}
    assert set(golden("ilif")) == inputs | compared


@given(arguments=settings, T=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_it_is_the_loop_in_torch_operations(arguments: dict[str, Any], T: int, seed: int) -> None:
    neuron = ILIF(T, **arguments)
    x = halves(T, seed).requires_grad_()
    again = x.detach().clone().requires_grad_()
    grad = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(seed + 1))
    out, expected = neuron(x), by_autograd(neuron, again)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    out.backward(grad)
    expected.backward(grad)
    assert x.grad is not None
    assert again.grad is not None
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-12, atol=1e-12)


@given(arguments=settings, T=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_a_count_unfolds_into_as_many_spikes_of_one_height(arguments: dict[str, Any], T: int, seed: int) -> None:
    neuron = ILIF(T, **arguments)
    x = halves(T, seed)
    steps = assert_unfolds(neuron, x)
    height = 1 / neuron.levels if neuron.normalized else 1.0
    assert steps.shape[0] == neuron.levels
    assert neuron.unfolds
    assert not neuron.per_token
    assert set(steps.unique().tolist()) <= ({-height, 0.0, height} if neuron.signed else {0.0, height})
    torch.testing.assert_close((steps != 0).sum(0).double() * height, neuron(x).abs())
    size = steps.abs()
    assert bool((size[1:] <= size[:-1]).all()), "a later spike without the earlier"


@pytest.mark.parametrize("signed", [False, True])
def test_the_ends_and_the_ties(signed: bool) -> None:
    x = torch.tensor([[[-9.0, -2.0, -0.5, 0.0, 0.5, 1.5, 2.0, 9.0]]]).requires_grad_()
    for half, counts in {"even": [0, 0, 0, 0, 0, 2, 2, 2], "up": [0, 0, 0, 0, 1, 2, 2, 2]}.items():
        out = ILIF(1, levels=2, signed=signed, half="even" if half == "even" else "up")(x)
        (grad,) = torch.autograd.grad(out.sum(), x)
        expected = [-2, -2, *counts[2:]] if signed else counts
        assert out.flatten().tolist() == expected
        ends = half == "even"
        inside = [False, ends, True, True, True, True, ends, False]
        assert grad.flatten().bool().tolist() == (inside if signed else [False] * 3 + [ends, True, True, ends, False])


def test_without_memory_no_step_reads_another() -> None:
    x = torch.randn(3, 2, 4) * 3
    alone = torch.cat([ILIF(1)(step[None]) for step in x])
    assert torch.equal(ILIF(3, memory=False)(x), alone)
    assert not torch.equal(ILIF(3)(x), alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_the_counts_of_single(dtype: torch.dtype) -> None:
    x = (torch.randn(4, 2, 3, 8) * 3).to(dtype).requires_grad_()
    neuron = ILIF(4)
    out = neuron(x)
    assert out.dtype == dtype
    assert torch.equal(out.float(), neuron(x.detach().float()))
    assert neuron.unfold(x).dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
