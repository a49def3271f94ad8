"""LIF with the arctan surrogate, in SpikingJelly's semantics (the paper's LIF-BERT*)."""

from __future__ import annotations

from torch import Tensor

from spikelm.neurons.kernels.leaky import LeakyArctan
from spikelm.neurons.neuron import Neuron
from spikelm.rules import Positive


class LIFAtan(Neuron):
    """h_t = v_{t-1} + (x_t - v_{t-1}) / tau; s_t = [h_t >= theta]; v_t = h_t (1 - s_t), reset detached.

    Keys and values get the same neuron: SpikingJelly's node has no memoryless form.
    """

    def __init__(self, T: int, memory: bool = True, tau: Positive = 2.0, theta: Positive = 1.0) -> None:
        super().__init__(T, memory)
        self.tau = tau
        self.theta = theta

    def forward(self, x: Tensor) -> Tensor:
        return LeakyArctan.apply(x, self.tau, self.theta)

    def heights(self, like: Tensor) -> Tensor | None:
        return like.new_ones(self.T)
