"""What neurons share whose output is a whole number on a step, n S: how it is computed, unfolded and kept."""

from __future__ import annotations

import torch
from torch import Tensor

from spikelm.neurons.amplitude import ALPHA_FLOOR, AmplitudeNeuron
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.whole import WholeRule, numbers, whole_code


class CodedNeuron(AmplitudeNeuron):
    """y = n S. A subclass says which n there are (`rule`), the step S (`step`), and how n is written (`write`).

    The step is one of each time step, or of each token where `per_token` is true; it may be applied after the product
    of the whole numbers and the weights.
    """

    rule: WholeRule
    keeps = True  # whether a linear behind it keeps n, which is small, in place of n S
    whole = True  # whether it computes n S at all; some settings of a neuron are no whole numbers on one step

    def step(self, x: Tensor) -> Tensor:
        """S for x (T, B, ..., d): (T, 1, ..., 1), or (T, B, ..., 1) where tokens have their own."""
        raise TypeError(f"{type(self).__name__} does not say its step")

    def write(self, n: Tensor) -> Tensor:
        """n as spikes (V, *shape): whole numbers that add up to n, at each virtual step of one magnitude."""
        raise TypeError(f"{type(self).__name__} does not say how it writes a number")

    @torch.no_grad()
    def code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """n, as floats, and S."""
        values = wide(x)
        step = self.step(values)
        return numbers(values, step, self.rule), step

    def forward(self, x: Tensor) -> Tensor:
        values = wide(x)
        y = whole_code(values, self.step(values), self.rule, self.keeps)
        if y.dtype == x.dtype:
            return y
        spikes = y.to(x.dtype)
        if (packed := getattr(y, "packed", None)) is not None:
            spikes.packed = packed  # type: ignore[attr-defined]
        return spikes

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        n, step = self.code(x)
        return (self.write(n) * step).to(x.dtype)

    @torch.no_grad()
    def limits(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        step = self.step(wide(x))
        return step * self.rule.low, step * self.rule.high

    @torch.no_grad()
    def coding(self, x: Tensor) -> tuple[Tensor, torch.dtype] | None:
        exact = self.rule.dtype == torch.int8 or (self.rule.dtype == torch.int16 and x.dtype.itemsize >= 4)
        return (self.step(wide(x)), self.rule.dtype) if self.whole and exact else None


def per_step(alpha: Tensor, like: Tensor) -> Tensor:
    """One value of each time step (T,), shaped to go with x (T, ...), and never zero."""
    return alpha.to(like.dtype).clamp_min(ALPHA_FLOOR).view(-1, *[1] * (like.dim() - 1))


def per_token(x: Tensor, share: float) -> Tensor:
    """`share` of the largest magnitude of each token of x (T, ..., d), (T, ..., 1), and never zero."""
    smallest = torch.finfo(x.dtype).tiny
    return (x.detach().abs().amax(-1, keepdim=True) * share).clamp_min_(smallest)
