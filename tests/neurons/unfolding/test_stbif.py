"""ST-BIF against SpikeZIP-TF's tensors and its own quantiser."""

from __future__ import annotations

import pytest
import torch
from golden import assert_unfolds, golden, needs_golden
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.errors import SpikeLMError
from spikelm.neurons.unfolding.stbif import STBIF, spike_train

BOUNDS = {"sym": (-4, 3), "unsigned": (0, 7)}


def neuron_with(s: Tensor | float, signed: bool, levels: int = 8) -> STBIF:
    neuron = STBIF(1, levels=levels, signed=signed)
    with torch.no_grad():
        neuron.alpha.fill_(float(s))
        neuron.alpha_ready.fill_(True)
    neuron._ready = None
    return neuron


@needs_golden
@pytest.mark.parametrize("kind", ["sym", "unsigned"])
@pytest.mark.parametrize("edge", ["", "edge_"])
def test_the_quantiser_and_its_gradients_are_the_released_ones(edge: str, kind: str) -> None:
    g = golden("stbif")
    x = g["edge" if edge else "x"][None].clone().requires_grad_()
    neuron = neuron_with(g[f"{edge}quan_{kind}.s"], kind == "sym")
    out = neuron(x)
    out.backward(g[f"{edge}grad_out"][None])
    assert x.grad is not None
    assert neuron.alpha.grad is not None
    torch.testing.assert_close(out[0], g[f"{edge}quan_{kind}.out"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(x.grad[0], g[f"{edge}quan_{kind}.grad_x"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(neuron.alpha.grad[0], g[f"{edge}quan_{kind}.grad_s"], rtol=1e-6, atol=1e-6)


@needs_golden
@pytest.mark.parametrize("kind", ["sym", "unsigned"])
def test_the_first_step_size_is_the_released_one(kind: str) -> None:
    g = golden("stbif")
    neuron = STBIF(1, levels=8, signed=kind == "sym")
    neuron(g["x"][None])
    torch.testing.assert_close(neuron.alpha.detach()[0], g[f"quan_init_s_{kind}"], rtol=1e-6, atol=1e-6)


@needs_golden
@pytest.mark.parametrize("kind", ["sym", "unsigned"])
@pytest.mark.parametrize("edge", ["", "edge_"])
def test_the_spikes_of_an_input_at_the_first_step_are_the_released_ones(edge: str, kind: str) -> None:
    g = golden("stbif")
    s, x, expected = g[f"{edge}quan_{kind}.s"], g["edge" if edge else "x"], g[f"{edge}stbif_{kind}.spikes_analog"]
    inputs = torch.zeros_like(expected)
    inputs[0] = x
    spikes, membrane, tracer = spike_train(inputs, s, *BOUNDS[kind])
    assert torch.equal(spikes * s, expected)
    assert torch.equal(tracer, g[f"{edge}stbif_{kind}.acc_final"])
    torch.testing.assert_close(membrane, g[f"{edge}stbif_{kind}.q_final"], rtol=1e-6, atol=1e-6)


@needs_golden
@pytest.mark.parametrize("kind", ["sym", "unsigned"])
def test_the_spikes_of_an_input_over_several_steps_are_the_released_ones(kind: str) -> None:
    g = golden("stbif")
    s, expected = g[f"quan_{kind}.s"], g[f"stbif_{kind}.spikes_seq"]
    inputs = torch.zeros_like(expected)
    inputs[:4] = g[f"stbif_{kind}.in_seq"]
    spikes, membrane, tracer = spike_train(inputs, s, *BOUNDS[kind])
    assert torch.equal(spikes * s, expected)
    assert torch.equal(tracer, g[f"stbif_{kind}.acc_seq_final"])
    torch.testing.assert_close(membrane, g[f"stbif_{kind}.q_seq_final"], rtol=1e-6, atol=1e-6)


@given(
    level=st.integers(-30, 30),
    part=st.floats(-0.45, 0.45),
    pieces=st.lists(st.floats(-3, 3), max_size=6),
    half=st.integers(2, 8),
    signed=st.booleans(),
)
def test_any_split_of_the_input_gives_the_level_of_the_sum(
    level: int, part: float, pieces: list[float], half: int, signed: bool
) -> None:
    s = 0.3
    lo, hi = (-half, half - 1) if signed else (0, 2 * half - 1)
    x = (level + part) * s
    inputs = torch.zeros(len(pieces) + 1 + hi - lo, 1, dtype=torch.float64)
    inputs[: len(pieces) + 1, 0] = torch.tensor([*pieces, x - sum(pieces)], dtype=torch.float64)
    spikes, _, tracer = spike_train(inputs, s, lo, hi)
    assert float(spikes.sum()) == float(tracer) == min(max(level, lo), hi)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_unfolds(signed: bool, dtype: torch.dtype) -> None:
    neuron = STBIF(2, signed=signed).to(dtype)
    x = torch.randn(2, 3, 5, 8, dtype=dtype)
    neuron(x)
    steps = assert_unfolds(neuron, torch.cat([x, 100 * x, -1e-9 * x.abs()], dim=1))
    assert neuron.unfolds
    assert len(steps) == (8 if signed else 15)


def test_ties_unfold_to_the_same_level() -> None:
    neuron = neuron_with(0.3, True, 16)
    assert_unfolds(neuron, 0.15 * torch.arange(-30, 31, dtype=torch.float32)[None, None])


def test_half_precision_comes_back_as_such() -> None:
    neuron = STBIF(1)
    assert neuron(torch.randn(1, 2, 8).bfloat16()).dtype == torch.bfloat16


def test_odd_levels_are_refused() -> None:
    with pytest.raises(SpikeLMError, match="odd"):
        STBIF(1, levels=5)
