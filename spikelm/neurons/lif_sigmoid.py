"""LIF with the sigmoid surrogate, in the semantics of SpikingFormer's neurons."""

from __future__ import annotations

from torch import Tensor

from spikelm.neurons.kernels.leaky import LeakySigmoid
from spikelm.neurons.neuron import Neuron
from spikelm.rules import Positive


class LIFSigmoid(Neuron):
    """h_t = v_{t-1} + (x_t - v_{t-1}) / tau; s_t = [h_t >= theta]; v_t = h_t (1 - s_t), reset detached.

    ds/dh = a sigma(a u) (1 - sigma(a u)), u = h - theta: one at the threshold for a = 4. Keys and values get the same.
    """

    def __init__(
        self, T: int, memory: bool = True, tau: Positive = 2.0, theta: Positive = 1.0, sharpness: Positive = 4.0
    ) -> None:
        super().__init__(T, memory)
        self.tau = tau
        self.theta = theta
        self.sharpness = sharpness

    def forward(self, x: Tensor) -> Tensor:
        return LeakySigmoid.apply(x, self.tau, self.theta, self.sharpness)

    def heights(self, like: Tensor) -> Tensor | None:
        return like.new_ones(self.T)
