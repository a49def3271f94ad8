"""Elastic binarisation: a learned scale and shift, signed or unsigned by site (BiT, BiPFT; LSQ in BinaryBERT)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spikelm.neurons.amplitude import ALPHA_FLOOR, AmplitudeNeuron, mean_magnitude


class ElasticRound(torch.autograd.Function):
    """a clamp(round(x / a), low, high), or a sign(x) for two signed levels; q = x / a.

    dx = g [low <= q <= high]
    da = sum g (round(q) - q inside, the clipped level outside) / sqrt(N high); signed levels: sum g sign(x) / sqrt(N)
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, low: int, high: int) -> Tensor:
        a = alpha.view(-1, *[1] * (x.dim() - 1))
        q = x / a
        ctx.bounds = low, high
        ctx.save_for_backward(q)
        return a * _level(q, low, high)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (q,) = ctx.saved_tensors
        low, high = ctx.bounds
        inside = torch.eq(q.clamp(low, high), q, out=torch.empty_like(q))  # as floats: comparing into booleans is slow
        level = _level(q, low, high)
        slope = level if low == -1 else level.addcmul_(q, inside, value=-1)
        grad_alpha = (grad * slope).flatten(1).sum(1) / math.sqrt(q[0].numel() * high)
        return grad * inside, grad_alpha, None, None


def _level(q: Tensor, low: int, high: int) -> Tensor:
    if low == -1:  # two levels: no zero between them
        return torch.ge(q, 0, out=torch.empty_like(q)).mul_(2).sub_(1)
    return q.clamp(low, high).round_()


class Elastic(AmplitudeNeuron):
    """Levels a {-1, 1}, unsigned a {0, 1}; two bits: a {-2..1}, unsigned a {0..3} (BiT, docs/paper/lowbit.md).

    Attention probabilities are unsigned, and with `unsigned_ffn` the input of the second FFN linear, which follows a
    ReLU. a learns, from 2 mean|x| / sqrt(high) of the first batch (unsigned 4). `shift` adds one learned value per
    channel to the input of a linear.
    """

    def __init__(
        self, T: int, memory: bool = True, width: Literal[1, 2] = 1, shift: bool = True, unsigned_ffn: bool = True
    ) -> None:
        super().__init__(T, memory, elastic=True, learnable=True)
        self.width: int = width
        self.shifted = shift
        self.unsigned_ffn = unsigned_ffn
        self.shift: nn.Parameter | None = None

    def fit_to(self, features: int) -> None:
        if self.shifted and self.site.endswith("_in"):
            self.shift = nn.Parameter(torch.zeros(features))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.shift is not None:
            self.shift.zero_()

    @property
    def unsigned(self) -> bool:
        """Whether the site holds no negative values."""
        return self.site.endswith("attn_probs") or (self.unsigned_ffn and self.site.endswith("ffn2_in"))

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        if self.unsigned:
            return 0, 2**self.width - 1
        return (-1, 1) if self.width == 1 else (-(2 ** (self.width - 1)), 2 ** (self.width - 1) - 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.shift is not None:
            x = x + self.shift
        self.set_from(x)
        return ElasticRound.apply(x, self.alpha.to(x.dtype).clamp_min(ALPHA_FLOOR), *self.bounds)

    def find_alpha(self, x: Tensor) -> None:
        factor = (4 if self.unsigned else 2) / math.sqrt(self.bounds[1])
        for t, step in enumerate(x):
            self.alpha[t] = (factor * mean_magnitude(step)).clamp_min(ALPHA_FLOOR)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}, shift={self.shifted}, unsigned_ffn={self.unsigned_ffn}"
