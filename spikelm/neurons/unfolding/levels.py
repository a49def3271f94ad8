"""A plain quantised activation with a learned step (LSQ): the honest rival of every code, counted bit by bit."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from spikelm.neurons.amplitude import ALPHA_FLOOR, mean_magnitude
from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron, per_step
from spikelm.neurons.unfolding.writing import bits


class Levels(CodedNeuron):
    """S clamp(round(x / S), low, high): L levels, from -L/2 to L/2 - 1, or -1, 0 and 1 where L = 3.

    S learns by LSQ's gradient, one per time step, from 2 mean|x| / sqrt(high) of the first batch. The output unfolds
    into sign and bits, one spike for each set bit: what a bit-serial processor would add up.
    """

    def __init__(self, T: int, memory: bool = True, levels: Literal[3, 4, 8, 16] = 16) -> None:
        super().__init__(T, memory, elastic=True, learnable=True)
        self.levels = levels
        self.rule = WholeRule(-(levels // 2), (levels - 1) // 2)
        self.width = (levels // 2).bit_length()  # bits of the largest magnitude

    def step(self, x: Tensor) -> Tensor:
        self.set_from(x)
        return per_step(self.alpha, x)

    def write(self, n: Tensor) -> Tensor:
        return bits(n, self.width)

    def find_alpha(self, x: Tensor) -> None:
        for t, step in enumerate(x):
            self.alpha[t] = (2 * mean_magnitude(step) / math.sqrt(self.rule.high)).clamp_min(ALPHA_FLOOR)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, levels={self.levels}"
