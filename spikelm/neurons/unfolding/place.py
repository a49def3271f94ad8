"""Signed binary place values: a sign and w bits of magnitude, each bit a spike of its own height."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor

from spikelm.neurons.amplitude import largest_magnitude
from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron, per_step, per_token
from spikelm.neurons.unfolding.writing import bits
from spikelm.rules import Rule


class Place(CodedNeuron):
    """n S, n = clamp(round(x / S), -M, M), M = 2^w - 1, S = max|x| / M; it unfolds into w spikes sign(n) 2^b S.

    The most significant bit comes first. The gradient passes where |round(x / S)| <= M.

    width: w.  scale: max|x| of each token, where every value is in range, or of the layer at each time step, alpha,
    which the first training batch sets.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        width: Annotated[int, Rule(whole=True, least=1, most=16)] = 8,
        scale: Literal["token", "layer"] = "token",
    ) -> None:
        super().__init__(T, memory, elastic=scale == "layer", learnable=False)
        self.width = width
        self.scale = scale
        self.per_token = scale == "token"
        top = 2**width - 1
        self.rule = WholeRule(-top, top, passes="everywhere" if self.per_token else "rounded")

    def step(self, x: Tensor) -> Tensor:
        if self.per_token:
            return per_token(x, 1 / self.rule.high)
        self.set_from(x)
        return per_step(self.alpha, x) / self.rule.high

    def write(self, n: Tensor) -> Tensor:
        return bits(n, self.width)

    def find_alpha(self, x: Tensor) -> None:
        self.alpha.copy_(largest_magnitude(x))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}, scale={self.scale}"
