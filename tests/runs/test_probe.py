"""Probes of a model's neurons against plain loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from spikelm.neurons import Neuron
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.elastic import Elastic
from spikelm.neurons.lif import LIF
from spikelm.runs.probe import active_rates, membranes, picture


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_membranes_of_lif_follow_its_equation() -> None:
    x = drawn(4, 3, 5) + 0.5
    neuron = LIF(T=4)
    v, expected = torch.zeros(3, 5), []
    for step in x:
        m = v + step
        expected.append(m)
        v = 0.25 * m * (1 - (m >= 1).float())
    assert torch.allclose(membranes(neuron, x), torch.stack(expected))
    assert torch.equal(neuron(x), (torch.stack(expected) >= 1).float())


def test_membranes_of_the_bispike_follow_the_released_reset() -> None:
    x = drawn(4, 2, 50)
    neuron = BiSpike(T=4, k=2.0).train()
    spikes = neuron(x)
    m = x[0]
    for t in range(4):
        assert torch.allclose(membranes(neuron, x)[t], m, atol=1e-6)
        alpha = neuron.alpha[t]
        fired = alpha * torch.clamp(torch.round(m / alpha), -1, 1)
        assert torch.allclose(spikes[t], fired)
        if t < 3:
            m = x[t + 1] + 0.25 * m * (alpha - fired)


class One(nn.Module):
    """A model with one neuron at a site."""

    def __init__(self, neuron: Neuron, site: str) -> None:
        super().__init__()
        self.neuron = neuron
        neuron.site = site

    def forward(self, x: Tensor) -> Tensor:
        return self.neuron(x)


def test_a_picture_holds_every_value_once() -> None:
    x = drawn(2, 8, 6, 10)
    neuron = BiSpike(T=2, k=2.0).train()
    spikes = neuron(x)
    found = picture(One(neuron, "here"), {"x": x}, "here")
    assert len(found.steps) == 2
    for t, step in enumerate(found.steps):
        assert sum(step.input) == pytest.approx(1.0)
        assert sum(step.membrane) == pytest.approx(1.0)
        assert step.positive == pytest.approx(float((spikes[t] > 0).float().mean()))
        assert step.negative + step.silent + step.positive == pytest.approx(1.0)
        assert step.height == pytest.approx(float(neuron.alpha[t]))


def test_active_values_of_a_binary_neuron_are_its_ones() -> None:
    x = drawn(1, 4, 20) + 0.3
    neuron = Elastic(T=1, shift=False).train()
    neuron(x)
    rates = active_rates(One(neuron, "encoder.layer.0.ffn1_in"), {"x": x})
    assert rates == {"encoder.layer.0.ffn1_in": pytest.approx(float((x >= 0).float().mean()))}
