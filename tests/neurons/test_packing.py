"""Packed levels and masks: every value comes back, whatever the number of time steps and values."""

from __future__ import annotations

import pytest
import torch

from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels import packing
from spikelm.neurons.kernels.packing import Packed, Shared, pack_noise, packed_of, times_noise, unpack
from spikelm.neurons.lif import LIF


@pytest.mark.parametrize("T", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("shape", [(2, 16), (3, 7), (1, 1)])
def test_spikes_come_back_from_their_levels(T: int, shape: tuple[int, ...]) -> None:
    neuron = BiSpike(T)
    x = torch.randn(T, *shape, requires_grad=True)
    spikes = neuron(x)
    packed = packed_of(spikes)
    assert packed is not None
    assert torch.equal(unpack(packed.levels, packed.alpha, spikes.shape), spikes)


def test_levels_take_two_bits_and_the_mask_one_per_row() -> None:
    for T in (1, 4):
        spikes = BiSpike(T)(torch.randn(T, 8, 32, requires_grad=True))
        assert packed_of(spikes).levels.nbytes == spikes.numel() / 4


@pytest.mark.parametrize("theta", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lif_spikes_of_any_threshold_come_back(theta: float, dtype: torch.dtype) -> None:
    spikes = LIF(4, theta=theta)(2 * theta * torch.randn(4, 5, 8).to(dtype).requires_grad_())
    packed = packed_of(spikes)
    assert packed is not None
    assert set(spikes.detach().float().unique().tolist()) == {0.0, 1.0}
    assert torch.equal(unpack(packed.levels, packed.alpha, spikes.shape).to(dtype), spikes)


def test_views_of_spikes_are_known_and_copies_are_not() -> None:
    spikes = BiSpike(2)(torch.randn(2, 3, 8, requires_grad=True))
    assert packed_of(spikes.flatten(0, 1).view(6, 2, 4).transpose(1, 2)) is packed_of(spikes)
    assert packed_of(spikes * 1) is None


def test_nothing_is_packed_where_no_gradient_is_wanted() -> None:
    neuron = BiSpike(2)
    neuron(torch.randn(2, 3, 8))
    with torch.no_grad():
        assert packed_of(neuron(torch.randn(2, 3, 8))) is None


@pytest.mark.parametrize("count", [64, 24, 7, 1])
@pytest.mark.parametrize("chunk", [1 << 19, 8])
def test_noise_comes_back_from_its_bits(monkeypatch: pytest.MonkeyPatch, count: int, chunk: int) -> None:
    monkeypatch.setattr(packing, "CHUNK", chunk)
    kept = torch.randint(0, 2, (count,), dtype=torch.int8)
    level = torch.tensor(1.25)
    packed = pack_noise(kept)
    assert packed.numel() == (count // 8 if count % 8 == 0 else count)
    x = torch.randn(count)
    assert torch.equal(times_noise(x, packed, level), x * (kept * level))
    assert torch.equal(times_noise(x.clone(), packed, level, out=x), x), "in place"


def test_floats_are_made_once_for_all_readers() -> None:
    spikes = BiSpike(1)(torch.randn(1, 4, 8, requires_grad=True))
    packed: Packed = packed_of(spikes)
    shared: Shared = packed.shared
    shared.readers = 3
    first, second, third = (shared.read(packed.levels, packed.alpha, torch.float32) for _ in range(3))
    assert first is second is third
    assert shared.read(packed.levels, packed.alpha, torch.float32) is not first  # a second backward makes them again
