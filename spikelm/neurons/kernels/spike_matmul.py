"""The product of spikes and weights: what it keeps of the spikes for the weight's gradient is their packed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from spikelm.neurons.kernels.packing import Shared, packed_of


class SpikeProduct(torch.autograd.Function):
    """x W' + b; dL/dx = g W, dL/dW = g' x with x unpacked from its levels, dL/db = sum g."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, levels: Tensor, alpha: Tensor, shared: Shared
    ) -> Tensor:
        ctx.save_for_backward(weight, levels, alpha)
        ctx.shared, ctx.view = shared, (x.size(), x.stride(), x.storage_offset())
        shared.readers += 1
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None, None]:
        weight, levels, alpha = ctx.saved_tensors
        size = ctx.view[0]
        rows = grad.reshape(-1, grad.shape[-1])
        grad_x, grad_weight, grad_bias = None, None, None
        if ctx.needs_input_grad[0]:
            grad_x = rows.mm(weight).view(size)
        if ctx.needs_input_grad[1]:
            spikes = ctx.shared.read(levels, alpha, grad.dtype).as_strided(*ctx.view)
            grad_weight = rows.t().mm(spikes.reshape(-1, size[-1]))
        if ctx.needs_input_grad[2]:
            grad_bias = rows.sum(0)
        return grad_x, grad_weight, grad_bias, None, None, None


def spike_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """F.linear that keeps packed spikes where x is spikes that carry them; the same digits, forward and backward."""
    packed = None
    if torch.is_grad_enabled() and weight.requires_grad and not torch.compiler.is_compiling():
        packed = packed_of(x)
    if packed is None:
        return F.linear(x, weight, bias)
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return SpikeProduct.apply(x, weight, bias, packed.levels, packed.alpha, packed.shared)
    dtype = torch.get_autocast_dtype(kind)
    low = None if bias is None else bias.to(dtype)
    with torch.autocast(kind, enabled=False):
        return SpikeProduct.apply(x.to(dtype), weight.to(dtype), low, packed.levels, packed.alpha, packed.shared)
