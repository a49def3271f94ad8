"""A LIF neuron that tires: every spike raises its threshold for a while."""

from __future__ import annotations

import torch
from torch import Tensor

from spikelm.neurons import Neuron
from spikelm.rules import NotNegative, Positive


class Adaptive(Neuron):
    """h_t = beta v_{t-1} + x_t; s_t = [h_t >= theta + b_t]; v_t = h_t - s_t theta; b_{t+1} = rho b_t + rise s_t.

    The gradient passes where h_t is within half a unit of the threshold.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        beta: NotNegative = 0.25,
        theta: Positive = 1.0,
        rho: NotNegative = 0.5,
        rise: NotNegative = 0.5,
    ) -> None:
        super().__init__(T, memory)
        self.beta, self.theta, self.rho, self.rise = beta if memory else 0.0, theta, rho, rise

    def forward(self, x: Tensor) -> Tensor:
        potential = torch.zeros_like(x[0])
        tired = torch.zeros_like(x[0])
        spikes = []
        for now in x:
            potential = self.beta * potential + now
            over = potential - self.theta - tired
            soft = (over + 0.5).clamp(0, 1)
            spike = (over >= 0).to(x.dtype) + soft - soft.detach()
            potential = potential - spike.detach() * self.theta
            if self.memory:
                tired = self.rho * tired + self.rise * spike.detach()
            spikes.append(spike)
        return torch.stack(spikes)
