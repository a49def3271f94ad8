"""Sorbet's activation quantiser: n bits on a learned height, whose levels are counts of spikes (ICML 2025)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from spikelm.neurons.amplitude import ALPHA_FLOOR, mean_magnitude
from spikelm.neurons.elastic import Elastic, ElasticRound
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.unfolding.writing import ternary


class Sorbet(Elastic):
    """a clamp(round(x / a), low, high), low..high = -2^(n-1)..2^(n-1) - 1 or unsigned 0..2^n - 1; a sign(x) for n = 1.

    n is the `width` in bits.
    As in BiT, a learns by LSQ's rule, one value is learned for each channel and added before (`shift`), and attention
    probabilities and, with `unsigned_ffn`, the input of the second FFN linear are unsigned. The difference is where a
    starts: at the power of two nearest, by the ratio, to 2 mean|x| / sqrt(high) of the first batch (unsigned 4).

    A level n unfolds into |n| spikes of -a or a, as many as Sorbet's integrate-and-fire neurons emit for a count n.
    offset: levels of unsigned sites with several bits are counted from the power of two nearest to the least value of
    the whole tensor, as released; what one row gives then depends on the others. A last virtual step holds that offset.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        width: Literal[1, 2, 3, 4, 5, 6, 7, 8] = 4,
        shift: bool = True,
        unsigned_ffn: bool = True,
        offset: bool = False,
    ) -> None:
        super().__init__(T, memory, shift=shift, unsigned_ffn=unsigned_ffn)
        self.width = width
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        values, least = self._prepared(x)
        levels: Tensor = ElasticRound.apply(values, self._height(values), *self.bounds)
        return (levels if least is None else levels + least).to(x.dtype)

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        values, least = self._prepared(x)
        low, high = self.bounds
        height = self._height(values).view(-1, *[1] * (x.dim() - 1))
        if low == -1:
            return self.forward(x)[None]
        level = (values / height).clamp_(low, high).round_()
        spikes = ternary(level, max(high, -low)) * height
        if least is not None:
            spikes = torch.cat([spikes, least.expand_as(level)[None]])
        return spikes.to(x.dtype)

    def _prepared(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """What is rounded, in single precision at least, and the offset that was taken off it."""
        values = wide(x) if self.shift is None else wide(x) + self.shift
        self.set_from(values)
        if not (self.offset and self.unsigned and self.width > 1):
            return values, None
        least = values.detach().amin()
        power = torch.exp2(torch.log2(least.abs()).round_()) * torch.sign(least)
        least = torch.where(least == 0, torch.zeros_like(least), power)
        return values - least, least

    def _height(self, like: Tensor) -> Tensor:
        return self.alpha.to(like.dtype).clamp_min(ALPHA_FLOOR)

    def find_alpha(self, x: Tensor) -> None:
        factor = (4 if self.unsigned else 2) / math.sqrt(self.bounds[1])
        for t, step in enumerate(x):
            start = (factor * mean_magnitude(step)).clamp_min(ALPHA_FLOOR)
            self.alpha[t] = torch.exp2(torch.log2(start).round_())

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, offset={self.offset}"
