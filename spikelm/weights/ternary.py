"""Ternary weights (TWN; TernaryBERT, and the first half of BinaryBERT)."""

from __future__ import annotations

from torch import Tensor

from spikelm.neurons.kernels.rounding import Ternary
from spikelm.rules import Positive
from spikelm.weights.quantizer import WeightQuantizer


class TernaryWeights(WeightQuantizer):
    """W_t = a sign(W) [|W| > d], d = 0.7 mean|W|, a = mean of |W| over |W| > d, W clipped to [-clip, clip] first."""

    def __init__(self, rows: bool = False, clip: Positive = 2.5) -> None:
        super().__init__(rows)
        self.clip = clip

    def forward(self, weight: Tensor) -> Tensor:
        return Ternary.apply(weight, self.clip, self.rows)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, clip={self.clip}"
