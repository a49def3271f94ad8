"""1-bit weights (BWN; BiT, BiPFT, BiBERT, SpikeLM's last row of table 4)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.weights.quantizer import WeightQuantizer, mean_of


class _Binary(torch.autograd.Function):
    """scale * sign(x), sign(0) = 1; the gradient passes as it is, or where |x| <= 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, clipped: bool) -> Tensor:
        ctx.clipped = clipped
        ctx.save_for_backward(x if clipped else None)
        return torch.where(x >= 0, scale, -scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1) if ctx.clipped else grad, None, None


class Binary(WeightQuantizer):
    """W_b = mean|W| sign(W - c), c the mean of W or 0.

    centre: tensor (BiT, BiPFT), row (BiBERT) or none (BWN as in BinaryBERT).
    gradient: identity, or clip: only where |W - c| <= 1 (BiBERT). Scale and centre are constants in the backward.
    """

    def __init__(
        self,
        rows: bool = False,
        centre: Literal["none", "tensor", "row"] = "tensor",
        gradient: Literal["identity", "clip"] = "identity",
    ) -> None:
        super().__init__(rows)
        self.centre = centre
        self.gradient = gradient

    def forward(self, weight: Tensor) -> Tensor:
        fixed = weight.detach()
        scale = mean_of(fixed.abs(), self.rows)
        if self.centre != "none":
            weight = weight - mean_of(fixed, self.centre == "row")
        return _Binary.apply(weight, scale, self.gradient == "clip")

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, centre={self.centre}, gradient={self.gradient}"
