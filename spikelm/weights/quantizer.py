"""What every weight quantiser is: a map from latent real weights to the few levels that a matmul sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightQuantizer(nn.Module):
    """Q(W) of a matrix (rows, columns), same shape; the gradient goes straight through to the latent weights.

    `rows` gives every row statistics of its own (word embeddings: a row is a word), else there is one for the matrix.
    Latent weights stay where they are, under their name: a checkpoint of the plain model fits.
    """

    def __init__(self, rows: bool = False) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, weight: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it quantises")

    def prepare(self, weight: Tensor) -> None:
        """Called once with the matrix it serves; a quantiser with parameters of its own makes them here."""

    @torch.no_grad()
    def start(self, weight: Tensor) -> None:
        """Called once with trained weights it starts from; most have nothing to do."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Values of its own parameters before training; most have none."""

    def extra_repr(self) -> str:
        return f"rows={self.rows}"


def mean_of(weight: Tensor, rows: bool) -> Tensor:
    """The mean of each row (rows, 1), or of the matrix (1, 1)."""
    return weight.mean(1, keepdim=True) if rows else weight.mean().reshape(1, 1)
