"""Dropout that draws 16 random bits per value and keeps one of them for the backward.

torch's on a CPU draws a double per value, which takes six times as long (a twentieth of a whole training step), and
keeps a float. With 16 bits p is a whole number of 65536ths; what stays is scaled by the p that is really drawn.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from spikelm.neurons.kernels.packing import ROWS, lanes, pack_noise, times_noise

DRAWS = 1 << 16
PER_WORD = 4  # draws in 64 bits


def dropped(p: float) -> int:
    """How many of the 65536 draws drop a value; one at least keeps it."""
    return min(round(p * DRAWS), DRAWS - 1)


def draw(x: Tensor, p: float) -> Tensor:
    """The values of x that stay, as bits: those whose draw is not among the lowest share p."""
    count = lanes(1, x.numel(), ROWS)
    size = x.numel() // count
    words = torch.empty(-(-size // PER_WORD), dtype=torch.int64, device=x.device)
    kept = torch.empty((count, size), dtype=torch.int8, device=x.device)
    for lane in kept:  # one lane at a time: its draws stay in cache
        draws = words.random_(-(1 << 63), None).view(torch.int16)[:size]
        torch.ge(draws, dropped(p) - DRAWS // 2, out=lane)
    return pack_noise(kept)


def level(x: Tensor, p: float) -> Tensor:
    """What a value that stays is multiplied by: the mean of many draws is x."""
    return x.new_ones(()).div_(1 - dropped(p) / DRAWS)


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
    """nn.Dropout by `draw`; elsewhere than on a CPU torch's own, which is fast there and keeps one byte per value."""

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
