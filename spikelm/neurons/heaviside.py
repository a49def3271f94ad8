"""Spikes of an embedding: its sign, as SpikeBERT and SpikeGPT turn words into spikes."""

from __future__ import annotations

from torch import Tensor

from spikelm.neurons.kernels.leaky import LeakyArctan
from spikelm.neurons.neuron import Neuron


class Heaviside(Neuron):
    """s = [x >= 0], ds/dx = 1 / (1 + (pi x)^2): a LIF of one step with tau = 1 and threshold 0."""

    def __init__(self, T: int = 1, memory: bool = False) -> None:
        super().__init__(T, memory)

    def forward(self, x: Tensor) -> Tensor:
        return LeakyArctan.apply(x[None], 1.0, 0.0)[0]
