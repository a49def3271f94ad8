"""BinaryBERT's weights: the sum of two binary matrices that starts as a ternary one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spikelm.neurons.kernels.rounding import ternarise
from spikelm.weights.binary import Binary
from spikelm.weights.quantizer import WeightQuantizer

TINY = 1e-30  # keeps 0 / 0 of a row of zeros at 0


def split(weight: Tensor, rows: bool = False) -> tuple[Tensor, Tensor]:
    """Ternary weight splitting: W1 + W2 = W, and mean|W1| sign(W1) + mean|W2| sign(W2) is W made ternary.

    Where it is not 0: W1 = c W, W2 = (1 - c) W. Where it is 0: W1 = W + b, W2 = -b for W > 0, else W1 = b, W2 = W - b.
    b = (a N - sum|W|) / (2 zeros), c = (S11 + S22 - S12) / (2 S11); S11 is the sum of |W| where it is not 0, S12 and
    S22 are those of |W1| and |W2| where it is.
    """
    flat = weight if rows else weight.reshape(1, -1)
    ternary = ternarise(flat, rows=True)
    zero = (ternary == 0).to(flat.dtype)
    scale = ternary.abs().amax(1, keepdim=True)
    total = flat.abs().sum(1, keepdim=True)
    b = (scale * flat.shape[1] - total) / (2 * zero.sum(1, keepdim=True).clamp_min(1))
    first = torch.where(flat > 0, flat + b, b)
    s11 = (flat.abs() * (1 - zero)).sum(1, keepdim=True)
    s12 = (first.abs() * zero).sum(1, keepdim=True)
    s22 = ((flat - first).abs() * zero).sum(1, keepdim=True)
    c = (s11 + s22 - s12) / (2 * s11).clamp_min(TINY)
    first = torch.where(zero.bool(), first, c * flat).view_as(weight)
    return first, weight - first


class Split(WeightQuantizer):
    """mean|W1| sign(W1) + mean|W2| sign(W2), identity gradient; W2 is a parameter beside the latent weights W1."""

    second: nn.Parameter

    def __init__(self, rows: bool = False) -> None:
        super().__init__(rows)
        self.binary = Binary(rows=rows, centre="none")

    def prepare(self, weight: Tensor) -> None:
        self.second = nn.Parameter(torch.zeros_like(weight))

    @torch.no_grad()
    def start(self, weight: Tensor) -> None:
        first, second = split(weight, self.rows)
        weight.copy_(first)
        self.second.copy_(second)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.second.zero_()

    def forward(self, weight: Tensor) -> Tensor:
        return self.binary(weight) + self.binary(self.second)
