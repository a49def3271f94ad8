"""Sorbet's quantiser against its tensors, and its levels as counts of spikes."""

from __future__ import annotations

import pytest
import torch
from golden import assert_unfolds, golden, needs_golden
from torch import Tensor

from spikelm.neurons.unfolding.sorbet import Sorbet
from spikelm.weights.binary import Binary


def made(signed: bool, width: int, offset: bool = False, T: int = 1) -> Sorbet:
    neuron = Sorbet(T, width=width, shift=False, offset=offset)  # type: ignore[arg-type]
    neuron.site = "encoder.layer.0.qkv_in" if signed else "encoder.layer.0.attn_probs"
    return neuron


def close(ours: Tensor | None, theirs: Tensor) -> None:
    assert ours is not None
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), rtol=1e-6, atol=1e-6)


@needs_golden
@pytest.mark.parametrize(
    ("name", "signed", "width", "offset"),
    [
        ("signed4", True, 4, False),
        ("signed1", True, 1, False),
        ("unsigned4", False, 4, False),
        ("unsigned4", False, 4, True),
        ("unsigned1", False, 1, False),
        ("unsigned4_shift", False, 4, True),
    ],
)
def test_levels_heights_and_gradients_are_the_released_ones(name: str, signed: bool, width: int, offset: bool) -> None:
    g = golden("sorbet")
    rectified = not signed and not name.endswith("shift")
    x = (g["act.x"].relu() if rectified else g["act.x"])[None].clone().requires_grad_()
    neuron = made(signed, width, offset)
    out = neuron(x)
    out.backward(g["act.grad_out"][None])
    close(neuron.alpha.detach()[0], g[f"act.{name}.alpha"])
    close(out[0], g[f"act.{name}.out"])
    assert x.grad is not None
    close(x.grad[0], g[f"act.{name}.grad_x"])
    close(neuron.alpha.grad, g[f"act.{name}.grad_alpha"])


@needs_golden
def test_ties_and_saturation_are_the_released_ones() -> None:
    g = golden("sorbet")
    neuron = made(True, 4)
    with torch.no_grad():
        neuron.alpha.fill_(0.5)
        neuron.alpha_ready.fill_(True)
    neuron._ready = None
    x = g["act.edge"][None].clone().requires_grad_()
    out = neuron(x)
    out.sum().backward()
    assert torch.equal(out[0], g["act.edge_signed4.out"])
    assert x.grad is not None
    assert torch.equal(x.grad[0], g["act.edge_signed4.grad_x"])
    close(neuron.alpha.grad, g["act.edge_signed4.grad_alpha"])


@needs_golden
def test_a_count_is_as_many_spikes_as_the_released_kernel_emits() -> None:
    g = golden("sorbet")
    counts = g["spikes.train_T16_theta16"].ne(0).sum(1)
    neuron = made(False, 4)
    with torch.no_grad():
        neuron.alpha_ready.fill_(True)
    levels = torch.arange(16.0)
    assert torch.equal(neuron.unfold(levels[None, None]).ne(0).sum(0).flatten(), counts[:16])


@needs_golden
@pytest.mark.parametrize("rows", [False, True])
def test_the_one_bit_weights_are_those_of_weights_binary(rows: bool) -> None:
    g = golden("sorbet")
    expected = g["bwn.out_rowwise" if rows else "bwn.out_layerwise"]
    close(Binary(rows=rows)(g["bwn.weight"]), expected)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_unfolds(signed: bool, width: int, dtype: torch.dtype) -> None:
    neuron = made(signed, width, T=2).to(dtype)
    x = torch.randn(2, 3, 5, 8, dtype=dtype)
    x = x if signed else x.abs()
    neuron(x)
    steps = assert_unfolds(neuron, torch.cat([x, 100 * x, 0 * x], dim=1))
    assert len(steps) == (1 if width == 1 else 2 ** (width - 1) if signed else 2**width - 1)


def test_an_offset_is_one_more_virtual_step() -> None:
    neuron = made(False, 4, offset=True)
    x = torch.rand(1, 3, 8) + 0.3
    neuron(x)
    steps = assert_unfolds(neuron, x)
    assert len(steps) == 16
    assert float(steps[-1].min()) == float(steps[-1].max()) == 0.25


def test_a_height_starts_as_a_power_of_two() -> None:
    neuron = made(True, 4, T=3)
    neuron(torch.randn(3, 4, 8))
    mantissa, _ = torch.frexp(neuron.alpha.detach())
    assert mantissa.tolist() == [0.5, 0.5, 0.5]
