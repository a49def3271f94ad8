"""Integer spikes on a threshold of each token (SpikingBrain 1.0, W8ASpike)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron
from spikelm.neurons.unfolding.writing import binary, bits, largest, ternary
from spikelm.rules import Positive

LEAST_THRESHOLD = 1e-5
LARGEST_THRESHOLD = 1e4
AT_ONCE = 16  # virtual steps of one spike each
ANY_NUMBER = 2**30  # far above what floats count one by one


class Dynamic(CodedNeuron):
    """n V, n = round(x / V), V = clamp(mean|x| / k, 1e-5, 1e4) of each token; the gradient passes everywhere.

    n has no bound of its own: the largest count of a tensor says how many virtual steps there are. |n| is at most about
    k times the size of the last axis where V is below 1e4, and `ternary` and `binary` may need that many steps.

    coding: bitwise sign(n) 2^b V, a step for each bit of |n|, the most significant first; ternary sign(n) V in |n|
    steps; binary V in n - z steps, z = min(n, 0) of the token, and a last step of z V for every value of the token.
    """

    per_token = True
    keeps = False  # n may be large

    def __init__(
        self,
        T: int,
        memory: bool = True,
        k: Positive = 3.0,
        coding: Literal["bitwise", "ternary", "binary"] = "bitwise",
    ) -> None:
        super().__init__(T, memory, elastic=False, learnable=False)
        self.k = k
        self.written = coding
        self.rule = WholeRule(-ANY_NUMBER, ANY_NUMBER, passes="everywhere")

    @torch.no_grad()
    def step(self, x: Tensor) -> Tensor:
        """V of each token, (T, B, ..., 1)."""
        return (x.abs().mean(-1, keepdim=True) / self.k).clamp_(LEAST_THRESHOLD, LARGEST_THRESHOLD)

    def write(self, n: Tensor) -> Tensor:
        return torch.cat([*self._parts(n)])

    @torch.no_grad()
    def unfolded_parts(self, x: Tensor) -> Iterator[Tensor]:
        n, step = self.code(x)
        for part in self._parts(n):
            yield (part * step).to(x.dtype)

    def _parts(self, n: Tensor) -> Iterator[Tensor]:
        """n as spikes, `AT_ONCE` virtual steps at a time: a large count takes as many as it says."""
        if self.written == "bitwise":
            yield bits(n)
            return
        zero = n.amin(-1, keepdim=True).clamp_max(0)
        written, counts = (ternary, n) if self.written == "ternary" else (binary, n - zero)
        many = max(1, largest(counts))
        for first in range(0, many, AT_ONCE):
            yield written(counts, min(AT_ONCE, many - first), first)
        if self.written == "binary":
            yield zero.expand_as(n)[None]

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        return None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, coding={self.written}"
