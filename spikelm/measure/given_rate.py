"""Neurons that fire at random with a given rate: a network of any size at rates that were measured elsewhere."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from spikelm.neurons import Neuron
from spikelm.rules import Rule

HEIGHT = 0.5  # any but 1, so that nobody takes a spike for a whole number


class GivenRate(Neuron):
    """Spikes {-a, 0, a}, drawn for each value by itself, whatever is read."""

    def __init__(self, T: int, memory: bool = True, rate: Annotated[float, Rule(least=0, most=1)] = 0.5) -> None:
        super().__init__(T, memory)
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.rand_like(x)
        return torch.where(drawn < self.rate / 2, HEIGHT, torch.where(drawn < self.rate, -HEIGHT, 0.0)).to(x.dtype)
