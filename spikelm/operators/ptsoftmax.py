"""PTsoftmax: a softmax of powers of two, without exponentials and divisions (Sorbet, ICML 2025)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.precision import wide
from spikelm.operators.operator import Arithmetic, ScoreOperator, nearest_power

Gradient = Literal["ste", "released"]


class PTSoftmax(ScoreOperator):
    """p = 2^(c - max c) / P with c = ceil(scores), S = sum 2^(c - max c), P the power of two nearest to S.

    P is the larger one of two that are equally near (3 -> 4, 6 -> 8). Every p is a power of two, and dividing by P is a
    shift; a row sums to S / P, in [0.75, 1.5), not to 1. The maximum, the sum and the two roundings need comparisons,
    additions and the place of the leading bit.

    gradient: ste passes both roundings, of the scores and of S, as if they were not there:
    ds_i = ln 2 p_i (g_i - sum_j p_j g_j), the gradient of a softmax to the base 2. The released code has no gradient
    at all, because ceil has none: `released` gives zeros, so that queries and keys learn nothing.
    """

    arithmetic: Arithmetic = "shifts and additions"
    does = "powers of two: rounded scores, their sum and a shift"
    gives_powers = True

    def __init__(self, gradient: Gradient = "ste") -> None:
        super().__init__()
        self.gradient = gradient

    @property
    def title(self) -> str:
        return "PTsoftmax"

    def forward(self, scores: Tensor) -> Tensor:
        weights: Tensor = Powers.apply(wide(scores), self.gradient == "ste")
        return weights.to(scores.dtype)

    def extra_repr(self) -> str:
        return f"gradient={self.gradient}"


class Powers(torch.autograd.Function):
    """The weights of scores; with `straight` the gradient of a softmax to the base 2, else zero."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, straight: bool) -> Tensor:
        rounded, _, power = partition(scores)
        weights = rounded.div_(power)
        ctx.save_for_backward(weights if straight else None)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        if weights is None:
            return torch.zeros_like(grad), None
        product = weights * grad
        return product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1).mul_(math.log(2.0)), None


def partition(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """2^(c - max c), their sum S over the last axis, and the power of two nearest to S."""
    ceiled = scores.ceil()
    rounded = torch.exp2(ceiled - ceiled.amax(-1, keepdim=True))
    total = rounded.sum(-1, keepdim=True)
    return rounded, total, nearest_power(total)
