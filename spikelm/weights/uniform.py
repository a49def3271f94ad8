"""b-bit weights scaled by their largest (Q2BERT: two bits, of which nearly all weights become 0)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from spikelm.neurons.kernels.rounding import Uniform, top_level
from spikelm.weights.quantizer import WeightQuantizer

FLOOR = 1e-12  # of a step: a matrix of zeros stays one


class UniformWeights(WeightQuantizer):
    """W_q = clamp(round(W / S), -M, M) S, M = 2^(b-1) - 1, S = max|W| / M at every forward."""

    def __init__(self, rows: bool = False, width: Literal[2, 3, 4, 8] = 2) -> None:
        super().__init__(rows)
        self.width = width

    def forward(self, weight: Tensor) -> Tensor:
        size = weight.detach().abs()
        largest = size.amax(1, keepdim=True) if self.rows else size.amax()
        top = top_level(self.width)
        return Uniform.apply(weight, (largest / top).clamp_min(FLOOR), top)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}"
