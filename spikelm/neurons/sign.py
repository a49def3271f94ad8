"""The sign of an activation (BiBERT)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.neuron import Neuron


class _Sign(torch.autograd.Function):
    """1 where x >= 0, else -1; the gradient passes where |x| <= 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class Sign(Neuron):
    """sign(x) without a scale, as BiBERT has it; the straight-through gradient of clamp(x, -1, 1)."""

    def forward(self, x: Tensor) -> Tensor:
        return _Sign.apply(x)
