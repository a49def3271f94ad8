"""Linears that read levels -1, 0, 1: y_t = h_t W f_t + b, with the spikes' height h_t in the weights.

fp32: where all steps have one height the weights are h W and it is an ordinary linear; where they differ it is
h_t (W f_t), one multiplication of the output. int8: W = s W8 with one scale s per channel; spikes are exact in int8,
the product is in int32, exact too, and h_t s turns it back into floats: only the rounding of W to W8 is lost, and
nothing where W has few levels. Whole numbers n of a code are read in the same way, y = S (W n) + b, with the step S of
each time step or token. event: the weights and results of int8, computed another way (event/linear.py).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGEST = 127
PRECISIONS = ("fp32", "int8", "event")
NEAR = 1e-4  # how far a multiple of a level may be from a whole number


def int8_weights(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W8 (outputs, inputs) and s (outputs,), W = s W8: exactly where a channel has whole multiples of its smallest.

    Binary, ternary and n-bit weights have: then s is the smallest. Of all others it is a 127th of the largest.
    """
    size = weight.abs()
    tiny = torch.finfo(weight.dtype).tiny
    largest = size.amax(1).clamp_min(tiny)
    smallest = torch.where(size > 0, size, largest[:, None]).amin(1)
    multiples = size / smallest[:, None]
    few = ((multiples - multiples.round()).abs() <= NEAR).all(1) & (multiples.amax(1) <= LARGEST + NEAR)
    scale = torch.where(few, smallest, largest / LARGEST)
    return (weight / scale[:, None]).round_().to(torch.int8), scale


class SpikeLinear(nn.Module):
    """Levels (T, rows, in) to values (T, rows, out); `heights` is how many steps have a height of their own."""

    weight: Tensor
    bias: Tensor
    scale: Tensor | None

    def __init__(self, inputs: int, outputs: int, heights: int, precision: str = "fp32") -> None:
        super().__init__()
        self.int8 = precision == "int8"
        kind = torch.int8 if self.int8 else torch.get_default_dtype()
        # Buffers, because nothing of it is trained: int8 has no gradient at all.
        self.register_buffer("weight", torch.zeros(outputs, inputs, dtype=kind))
        self.register_buffer("bias", torch.zeros(outputs))
        if self.int8:
            self.register_buffer("scale", torch.ones(heights, 1, outputs))
        else:
            self.register_buffer("scale", torch.ones(heights, 1, 1) if heights > 1 else None)

    @torch.no_grad()
    def take(self, weight: Tensor, bias: Tensor, heights: Tensor) -> None:
        """Fill it from a trained linear and the heights (one, or one per step) of the spikes that it reads."""
        self.bias.copy_(bias)
        if self.int8 and self.scale is not None:
            whole, channel = int8_weights(weight)
            self.weight.copy_(whole)
            self.scale.copy_(heights.view(-1, 1, 1) * channel)
        elif self.scale is None:
            self.weight.copy_(heights * weight)
        else:
            self.weight.copy_(weight)
            self.scale.copy_(heights.view(-1, 1, 1))

    def forward(
        self, levels: Tensor, step: Tensor | None = None, residual: Tensor | None = None, biased: bool = True
    ) -> Tensor:
        """y for levels, or for whole numbers that count in units of `step`, (T, 1, 1) or (T, rows, 1); plus a residual.

        Every operation is rounded by itself: so another way to compute it can give the same digits.
        """
        if self.scale is None and step is None:
            y = F.linear(levels, self.weight, self.bias if biased else None)
            return y if residual is None else y + residual
        T, rows, inputs = levels.shape
        flat = levels.reshape(T * rows, inputs)
        if self.int8 and inputs > 1:  # of a single input torch's product is wrong
            product = torch._int_mm(flat.to(torch.int8), self.weight.t()).to(self.bias.dtype)
        else:
            product = flat.to(self.bias.dtype) @ self.weight.t().to(self.bias.dtype)
        y = product.view(T, rows, -1)
        for scale in (self.scale, step):
            if scale is not None:
                y = y.mul_(scale)
        if biased:
            y.add_(self.bias)
        return y if residual is None else y.add_(residual)

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}, {'int8' if self.int8 else 'fp32'}"
