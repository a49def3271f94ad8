"""The parallel spiking neuron: one learnable T x T matrix over time instead of a recurrence."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from spikelm.neurons.base import Neuron
from spikelm.neurons.kernels.arctan import ParallelArctan
from spikelm.rules import Positive


class PSN(Neuron):
    """h = W x + b over the time axis, s = [h >= 0]; W (T, T) uniform, b (T, 1) starts at -theta."""

    def __init__(self, T: int, memory: bool = True, theta: Positive = 1.0) -> None:
        super().__init__(T, memory)
        self.theta = theta
        self.weight = nn.Parameter(torch.empty(T, T))
        self.bias = nn.Parameter(torch.empty(T, 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # U(-1/sqrt(T), 1/sqrt(T))
        nn.init.constant_(self.bias, -self.theta)

    def forward(self, x: Tensor) -> Tensor:
        dtype = torch.promote_types(x.dtype, torch.float32)
        return ParallelArctan.apply(x, self.weight.to(dtype), self.bias.to(dtype))
