"""Rules that round weights and activations alike: ternary (TWN) and symmetric uniform, straight-through."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

THRESHOLD = 0.7  # of the mean magnitude (TWN)


def ternarise(x: Tensor, rows: bool = False) -> Tensor:
    """a sign(x) [|x| > d], d = 0.7 mean|x|, a = mean of |x| over |x| > d; for each row, or one for all."""
    size = x.abs()
    if rows:
        kept = (size > THRESHOLD * size.mean(-1, keepdim=True)).to(x.dtype)
        scale = (size * kept).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp_min(1)
    else:
        kept = (size > THRESHOLD * size.mean()).to(x.dtype)
        scale = (size * kept).sum() / kept.sum().clamp_min(1)
    return scale * x.sign() * kept


class Ternary(torch.autograd.Function):
    """ternarise(clip(x)); the gradient passes where |x| < clip."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, clip: float, rows: bool) -> Tensor:
        ctx.clip = clip
        ctx.save_for_backward(x)
        return ternarise(x.clamp(-clip, clip), rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < ctx.clip), None, None


def top_level(bits: int) -> int:
    """M = 2^(b-1) - 1: levels run from -M to M."""
    return 2 ** (bits - 1) - 1


class Uniform(torch.autograd.Function):
    """clamp(round(x / S), -M, M) S; the gradient passes everywhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, top: int) -> Tensor:
        return (x / step).round_().clamp_(-top, top).mul_(step)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None
