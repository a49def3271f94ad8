"""Integer spikes on a token's threshold, against SpikingBrain's tensors and in their three codes."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from golden import assert_unfolds, golden, needs_golden
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from spikelm.measure.firing import FiringMeter
from spikelm.measure.spike_tensors import look_at_steps
from spikelm.neurons.unfolding.dynamic import Dynamic
from spikelm.neurons.unfolding.writing import binary, bitwise, place_values, ternary

Coding = Literal["bitwise", "ternary", "binary"]
CODINGS: list[Coding] = ["bitwise", "ternary", "binary"]
counts = st.lists(st.integers(-200, 200), min_size=1, max_size=12)


def values(T: int, seed: int, size: float = 1.0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return size * torch.randn(T, 2, 3, 6, generator=draw, dtype=torch.float64)


def decoded(spikes: Tensor) -> Tensor:
    return (spikes * place_values(spikes)).sum(0)


@needs_golden
@pytest.mark.parametrize(("start", "k"), [("", 3.0), ("edge_", 3.0), ("k2.", 2.0), ("k4.", 4.0)])
def test_thresholds_counts_and_output_are_the_released_ones(start: str, k: float) -> None:
    g = golden("spikingbrain")
    x = g["edge" if start == "edge_" else "x"]
    neuron = Dynamic(x.shape[0], k=k)
    vth, n = g[f"{start}vth"], g[f"{start}spikes_int"]
    assert torch.equal(neuron.step(x), vth)
    assert torch.equal((x / vth).round(), n)
    assert torch.equal(neuron(x), n * vth)
    if f"{start}dequant" in g:
        assert torch.equal(neuron(x), g[f"{start}dequant"])
    spikes = neuron.unfold(x) / vth
    assert torch.equal(spikes.sum(0).round(), n)


@needs_golden
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("binary", "unsigned"),
        ("ternary", "signed"),
        ("bitwise_unsigned", "unsigned"),
        ("bitwise_bidirectional", "signed"),
    ],
)
def test_codes_are_the_released_ones(name: str, kind: str) -> None:
    g = golden("spikingbrain")
    n = g[f"counts_{kind}"]
    spikes = {"binary": binary, "ternary": ternary, "bitwise": bitwise}[name.split("_")[0]](n)
    assert torch.equal(spikes, g[f"{name}.spikes"])
    again = decoded(spikes) if name.startswith("bitwise") else spikes.sum(0)
    assert torch.equal(again, g[f"{name}.decoded"])
    assert torch.equal(again, n)
    torch.testing.assert_close(spikes.abs().mean(), g[f"{name}.firing_rate"])


@needs_golden
def test_signed_counts_in_binary_are_shifted_as_released() -> None:
    g = golden("spikingbrain")
    n = g["counts_signed"]
    assert torch.equal(binary(n - n.min()), g["binary_signed.spikes"])
    assert torch.equal(-n.min().expand_as(n), g["binary_signed.x_zero"])


@needs_golden
def test_the_gradient_is_not_the_released_one_but_straight_through() -> None:
    g = golden("spikingbrain")
    x = g["x"].requires_grad_()
    Dynamic(4)(x).backward(g["grad_out"])
    assert x.grad is not None
    assert torch.equal(x.grad, g["grad_out"])
    assert not torch.equal(x.grad, g["released_grad_x"])


@given(numbers=counts)
def test_codes_hold_every_count(numbers: list[int]) -> None:
    n = torch.tensor(numbers, dtype=torch.float32)
    top = int(n.abs().max())
    bits, units, shifted = bitwise(n), ternary(n), binary(n - n.min())
    assert bits.shape[0] == max(1, top.bit_length())
    assert units.shape[0] == max(1, top)
    assert torch.equal(decoded(bits), n)
    assert torch.equal(units.sum(0), n)
    assert torch.equal(shifted.sum(0) + n.min(), n)
    assert bits.abs().sum(0).tolist() == [abs(number).bit_count() for number in numbers]
    assert set(shifted.unique().tolist()) <= {0.0, 1.0}
    for spikes in (bits, units):
        assert set(spikes.unique().tolist()) <= {-1.0, 0.0, 1.0}
        assert bool((spikes * n >= 0).all())
    assert torch.equal(bitwise(n, 12)[-bits.shape[0] :], bits)
    assert torch.equal(decoded(bitwise(n, 12)), n)


@given(
    coding=st.sampled_from(CODINGS),
    T=st.integers(1, 3),
    k=st.sampled_from([0.5, 2.0, 3.0, 4.0]),
    size=st.sampled_from([1e-7, 0.01, 1.0, 10.0]),
    seed=st.integers(0, 10**6),
)
def test_the_virtual_steps_add_up_to_the_output(coding: Coding, T: int, k: float, size: float, seed: int) -> None:
    neuron = Dynamic(T, k=k, coding=coding)
    x = values(T, seed, size)
    x[0, 0, 0] = 0.0
    x[0, 0, 1] = x[0, 0, 1].abs()
    steps = assert_unfolds(neuron, x)
    torch.testing.assert_close(steps.sum(0), neuron(x), rtol=1e-12, atol=1e-12 * size)
    threshold = neuron.step(x)
    n = (x / threshold).round()
    heights = (steps / threshold).round().abs().flatten(1)
    if coding == "bitwise":
        assert steps.shape[0] == max(1, int(n.abs().max()).bit_length())
        assert all(set(h.unique().tolist()) <= {0.0, 2.0**b} for b, h in enumerate(reversed(heights)))
    elif coding == "ternary":
        assert steps.shape[0] == max(1, int(n.abs().max()))
        assert heights.max() <= 1
    else:
        assert bool((steps[:-1] >= 0).all())
        assert heights[:-1].max() <= 1
        assert torch.equal((steps[-1] / threshold).round(), n.amin(-1, keepdim=True).clamp_max(0).expand_as(n))
        assert not steps[-1, 0, 0, 1].any(), "a token without negative counts needs no zero point"


@pytest.mark.parametrize("coding", ["ternary", "binary"])
def test_a_large_count_is_unfolded_a_few_steps_at_a_time(coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    neuron, x = Dynamic(2, coding=coding), values(2, seed=0)
    x = torch.cat([x, torch.zeros(2, 2, 3, 90, dtype=x.dtype)], dim=-1)
    x[1, 0, 0, 0] = 100.0
    n = (x / neuron.step(x)).round()
    assert n.abs().max() > 250
    shift = n.amin(-1, keepdim=True).clamp_max(0) if coding == "binary" else torch.zeros_like(n[..., :1])
    events = ((n - shift).abs() + (shift != 0)).flatten(1).sum(1)
    parts = list(neuron.unfolded_parts(x))
    assert max(len(part) for part in parts) <= 16
    assert torch.equal(torch.cat(parts), neuron.unfold(x))
    monkeypatch.setattr(Dynamic, "unfold", lambda *_: pytest.fail("all steps at once"))
    model = nn.ModuleDict({"site": neuron})
    with FiringMeter(model) as meter:
        output = model["site"](x)
    assert meter.rates()["site"] == (events / x[0].numel()).tolist()
    assert meter.virtual_steps == int((n - shift).abs().max()) + (coding == "binary")
    seen = look_at_steps(neuron.unfolded_parts(x), output, neuron.per_token)
    assert (seen.events, seen.virtual_steps) == (int(events.sum()), meter.virtual_steps)
    assert seen.rate == pytest.approx(float(events.sum() / x.numel()))
    other = look_at_steps(neuron.unfolded_parts(x), output + 1e-3, neuron.per_token)
    assert other.rate is None, "a sum that is not the output"


@pytest.mark.parametrize("coding", CODINGS)
def test_zeros_stay_zero(coding: Coding) -> None:
    neuron = Dynamic(1, coding=coding)
    x = torch.zeros(1, 2, 4)
    steps = assert_unfolds(neuron, x)
    assert steps.shape[0] == (2 if coding == "binary" else 1)
    assert not steps.any()
    assert not neuron(x).any()
    assert neuron.unfold(torch.zeros(1, 0, 4)).shape[1:] == (1, 0, 4)


@given(T=st.integers(1, 3), k=st.sampled_from([1.0, 3.0]), seed=st.integers(0, 10**6))
def test_it_is_a_loop_over_tokens_with_a_straight_through_gradient(T: int, k: float, seed: int) -> None:
    x = values(T, seed).requires_grad_()
    again = x.detach().clone().requires_grad_()
    rows = []
    for row in again.reshape(-1, again.shape[-1]).unbind():
        threshold = (row.abs().sum() / len(row) / k).clamp(1e-5, 1e4).detach()
        rows.append(row + (torch.round(row / threshold) * threshold - row).detach())
    expected = torch.stack(rows).view_as(again)
    grad = values(T, seed + 1)
    out = Dynamic(T, k=k)(x)
    out.backward(grad)
    expected.backward(grad)
    assert x.grad is not None
    assert again.grad is not None
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(x.grad, again.grad)


@given(seed=st.integers(0, 10**6), factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_counts_do_not_depend_on_the_scale_of_a_token(seed: int, factor: float) -> None:
    x = values(2, seed)
    neuron = Dynamic(2)
    assert torch.equal(neuron(x * factor), neuron(x) * factor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_single(dtype: torch.dtype) -> None:
    x = torch.randn(2, 2, 3, 8).to(dtype).requires_grad_()
    neuron = Dynamic(2)
    out = neuron(x)
    assert torch.equal(out, neuron(x.detach().float()).to(dtype))
    assert neuron.unfold(x).dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
