"""The parallel spiking neuron: one learnable T x T matrix over time instead of a recurrence."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.surrogates import arctan_slope
from spikelm.neurons.neuron import Neuron
from spikelm.rules import Positive


def _potentials(flat: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    with torch.autocast(flat.device.type, enabled=False):  # which would round the membrane to half precision
        return torch.addmm(bias, weight, flat)


class _ParallelArctan(torch.autograd.Function):
    """s = [W x + b >= 0] over the time axis, with the arctan surrogate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return _potentials(wide(x).flatten(1), weight, bias).ge_(0).to(x.dtype).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, bias = ctx.saved_tensors
        flat = wide(x).flatten(1)
        grad_h = grad.flatten(1) * arctan_slope(_potentials(flat, weight, bias))
        grad_x = (weight.t() @ grad_h).view(x.shape).to(x.dtype)
        return grad_x, grad_h @ flat.t(), grad_h.sum(1, keepdim=True)


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
        return _ParallelArctan.apply(x, self.weight.to(dtype), self.bias.to(dtype))

    def heights(self, like: Tensor) -> Tensor | None:
        return like.new_ones(self.T)
