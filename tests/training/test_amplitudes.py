"""Spike amplitudes from one batch, from several, and set anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from spikelm.neurons.bispike import BiSpike
from spikelm.training.amplitudes import amplitudes_missing, forget_amplitudes, set_amplitudes


class Two(nn.Module):
    """Two neurons in a row; the second sees the spikes of the first, tripled."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.first, self.second = (BiSpike(T=1, k=2.0, **arguments) for _ in range(2))  # type: ignore[arg-type]

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.second(3 * self.first(batch["x"]))


def batches(count: int) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [{"x": (1 + i) * torch.randn(1, 4, 50, generator=generator)} for i in range(count)]


@pytest.mark.parametrize("count", [1, 3])
def test_amplitudes_are_the_mean_over_batches(count: int) -> None:
    model = Two()
    assert amplitudes_missing(model)
    set_amplitudes(model, batches(count), model)
    first, second = [], []
    for batch in batches(count):
        alpha = 2 * batch["x"].abs().mean()
        spikes = alpha * (batch["x"] / alpha).round().clamp(-1, 1)
        first.append(alpha)
        second.append(2 * (3 * spikes).abs().mean())
    assert float(model.first.alpha) == pytest.approx(float(sum(first)) / count, rel=1e-5)
    assert float(model.second.alpha) == pytest.approx(float(sum(second)) / count, rel=1e-5)
    assert not amplitudes_missing(model)


def test_forgotten_amplitudes_are_set_by_the_next_batch() -> None:
    model = Two()
    small, large = {"x": torch.ones(1, 2, 2)}, {"x": 5 * torch.ones(1, 2, 2)}
    model(small)
    model(large)
    assert float(model.first.alpha) == 2.0, "frozen after the first batch"
    forget_amplitudes(model)
    model(large)
    assert float(model.first.alpha) == 10.0


def test_what_was_learned_is_not_forgotten() -> None:
    model = Two(alpha="learnable")
    model({"x": torch.ones(1, 2, 2)})
    with torch.no_grad():
        model.first.alpha.fill_(0.7)
    forget_amplitudes(model)
    model({"x": 5 * torch.ones(1, 2, 2)})
    assert float(model.first.alpha.detach()) == pytest.approx(0.7)


def test_fixed_amplitudes_are_nobodys_business() -> None:
    model = Two(elastic=False)
    assert not amplitudes_missing(model)
    forget_amplitudes(model)
    assert float(model.first.alpha) == 1.0
