"""What every operator is: a module in place of a softmax or a LayerNorm that says which arithmetic it needs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

#: what a model does in it at inference: multiplications, divisions and exponentials of real numbers; these only in
#: some of its steps; or nothing but shifts, additions and comparisons
Arithmetic = Literal["real-valued", "partly", "shifts and additions"]


class Operator(nn.Module):
    """The base class of operators.

    Attributes:
        arithmetic: What it needs at inference. The audit prints it, together with `does`.
        does: The same in a few words, for a reader of the audit.
        gives_powers: Whether every value of its output at inference is 0 or a power of two, with either sign. The audit
            does not believe this but looks at the values.
    """

    arithmetic: Arithmetic = "real-valued"
    does: str = ""
    gives_powers: bool = False

    @property
    def title(self) -> str:
        """What the audit calls it."""
        return type(self).__name__

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Back to the state before any batch was seen; an operator without a state has nothing to do."""


class ScoreOperator(Operator):
    """In place of the softmax: `forward(scores)` maps real scores (..., queries, keys) to weights of the same shape.

    The scores are already scaled, and the mask is already added to them.
    """

    def forward(self, scores: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how scores become weights")


class NormOperator(Operator):
    """In place of a LayerNorm: `forward(x)` maps (..., features) to the same shape.

    `weight` and `bias` have the names that they have in the LayerNorm, so a plain checkpoint fits.
    """

    weight: nn.Parameter
    bias: nn.Parameter

    def take_over(self, norm: nn.LayerNorm, heads: int) -> None:
        """Called once with the LayerNorm whose place it takes, and the number of heads of the layer's attention."""
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it norms")


def nearest_power(x: Tensor) -> Tensor:
    """The power of two nearest to x > 0 by distance, the larger one of two that are equally near: 3 -> 4, 6 -> 8."""
    mantissa, exponent = torch.frexp(x)  # x = mantissa 2^exponent, mantissa in [0.5, 1): exact, unlike a logarithm
    return power_of_two(torch.where(mantissa < 0.75, exponent - 1, exponent), x)


def power_above(x: Tensor) -> Tensor:
    """The least power of two that is not below x > 0: 2^ceil(log2 x)."""
    mantissa, exponent = torch.frexp(x)
    return power_of_two(torch.where(mantissa == 0.5, exponent - 1, exponent), x)


def rounded_power(x: Tensor) -> Tensor:
    """sign(x) 2^round(log2|x|), 0 for 0: the power of two nearest to x by the ratio."""
    size = torch.exp2(torch.log2(x.abs()).round_())
    return torch.where(x == 0, torch.zeros_like(x), size * torch.sign(x))


def power_of_two(exponent: Tensor, like: Tensor) -> Tensor:
    """2^exponent in the type of `like`."""
    return torch.exp2(exponent.to(like.dtype))


def all_powers(x: Tensor) -> Tensor:
    """Whether every value of x is 0 or a power of two, with either sign; a boolean on the device of x."""
    mantissa, _ = torch.frexp(x.float().abs())
    return ((mantissa == 0.5) | (mantissa == 0)).all()
