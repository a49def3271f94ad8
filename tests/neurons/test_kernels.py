"""The kernels themselves: thresholds to the last bit, memory kept for the backward, chunks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.saved import saved_bytes
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels import packing
from spikelm.neurons.kernels.clip import clip_spikes
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.lif import LIF
from spikelm.neurons.lif_atan import LIFAtan
from spikelm.neurons.neuron import Neuron
from spikelm.neurons.psn import PSN

CODE = ClipRule(bidirectional=True, fire="round", beta=0.25, scaled=True, symmetric=False)


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("make", [LIF, BiSpike, lambda T: BiSpike(T, memory=False)])
def test_clip_neurons_save_a_byte_per_value(make: Callable[[int], Neuron], T: int) -> None:
    neuron = make(T)
    x = torch.randn(T, 16, 64, requires_grad=True)
    neuron(x)
    assert 0 < saved_bytes(lambda: neuron(x)) <= 0.27 * x.nbytes


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [LIFAtan, PSN])
def test_arctan_neurons_save_only_their_input(make: Callable[[int], Neuron], T: int, dtype) -> None:
    neuron = make(T)
    x = torch.randn(T, 16, 64, dtype=dtype, requires_grad=True)
    assert saved_bytes(lambda: neuron(x), owned=(x, *neuron.parameters())) == 0


@pytest.mark.parametrize("make", [LIF, BiSpike, LIFAtan, PSN])
def test_nothing_is_saved_without_gradients(make: Callable[[int], Neuron]) -> None:
    neuron = make(4)
    neuron(torch.randn(4, 16, 64))
    with torch.no_grad():
        assert saved_bytes(lambda: neuron(torch.randn(4, 16, 64))) == 0


@given(
    a=st.floats(2**-16, 100, width=32),
    half=st.sampled_from([0.5, 1.0]),
    sign=st.sampled_from([-1.0, 1.0]),
    steps=st.integers(-3, 3),
)
def test_ties_to_the_last_bit(a: float, half: float, sign: float, steps: int) -> None:
    """At the thresholds and their neighbouring floats: as rounding m / a, mask |m| <= a."""
    alpha = torch.tensor([a])
    m = alpha * half
    for _ in range(abs(steps)):
        m = torch.nextafter(m, torch.tensor([steps * torch.inf]))
    x = (sign * m)[None].requires_grad_()
    spikes = clip_spikes(x, alpha, CODE)
    assert torch.equal(spikes.detach()[0], alpha * (x.detach()[0] / alpha).round().clamp(-1, 1))
    spikes.backward(torch.ones_like(x))
    assert x.grad.item() == float(m.item() <= alpha.item())


@pytest.mark.parametrize("learns", [False, True])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, learns: bool) -> None:
    x, grad = torch.randn(4, 7, 33), torch.randn(4, 7, 33)
    results = []
    for chunk in (1 << 19, 10, 1):
        monkeypatch.setattr(packing, "CHUNK", chunk)
        values, alpha = x.clone().requires_grad_(), torch.tensor([1.6, 2.2, 3.2, 5.3]).requires_grad_(learns)
        spikes = clip_spikes(values, alpha, CODE)
        spikes.backward(grad)
        results.append((spikes.detach(), values.grad, alpha.grad if learns else alpha.detach()))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_strided_input_equals_contiguous_input() -> None:
    x = torch.randn(8, 33, 4).permute(2, 0, 1)
    alpha = torch.tensor([1.6, 2.2, 3.2, 5.3])
    assert torch.equal(clip_spikes(x, alpha, CODE), clip_spikes(x.contiguous(), alpha, CODE))


@pytest.mark.parametrize("make", [LIF, BiSpike])
def test_a_membrane_that_is_not_a_number_is_not_hidden(make: Callable[[int], Neuron]) -> None:
    """A diverged training must reach the loss, not become a silent neuron."""
    neuron = make(2)
    x = torch.randn(2, 3, 4)
    neuron(x)
    x[0, 1, 2] = torch.nan
    spikes = neuron(x)
    assert spikes[:, 1, 2].isnan().all()
    assert spikes.isnan().sum() == 2


def test_an_empty_batch_gives_no_spikes() -> None:
    x = torch.empty(4, 0, 8, requires_grad=True)
    spikes = LIF(4)(x)
    spikes.sum().backward()
    assert spikes.shape == x.shape
