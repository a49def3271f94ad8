"""Dropout that keeps one bit a value for the backward, where torch's on a CPU keeps a float."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from spikelm.neurons.packing import pack_noise, times_noise


def draw(x: Tensor, p: float) -> Tensor:
    """The noise of F.dropout for x by the same draws, as bits of the values that stay."""
    return pack_noise(torch.empty(x.shape, dtype=torch.int8, device=x.device).bernoulli_(1 - p))


def level(x: Tensor, p: float) -> Tensor:
    """1 / (1 - p) as F.dropout rounds it."""
    return x.new_ones(()).div_(1 - p)


class BitDropoutFunction(torch.autograd.Function):
    """x * noise; dL/dx = g * noise, the noise unpacked from its bits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        bits = draw(x, p)
        ctx.p = p
        ctx.save_for_backward(bits)
        return times_noise(x, bits, level(x, p))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return times_noise(grad, bits, level(grad, ctx.p)), None


class BitDropout(nn.Dropout):
    """nn.Dropout with the same draws; elsewhere than on a CPU, torch keeps a byte a value itself."""

    def forward(self, input: Tensor) -> Tensor:
        plain = not (self.training and 0 < self.p < 1 and input.is_cpu and input.requires_grad and input.numel())
        if plain or torch.compiler.is_compiling():
            return F.dropout(input, self.p, self.training)
        return BitDropoutFunction.apply(input, self.p)


def keep_bits(blocks: nn.Module) -> None:
    """Let the dropout of `blocks` keep bits."""
    for module in blocks.modules():
        if type(module) is nn.Dropout:
            module.__class__ = BitDropout
