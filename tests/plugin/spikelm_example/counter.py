"""A neuron that counts: a value takes as many spikes as it has units."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from spikelm.neurons import Neuron
from spikelm.rules import Positive, Rule


class Counter(Neuron):
    """y = unit n, n = clamp(round(x / unit), -most, most), which takes |n| spikes of height unit.

    The gradient passes where |x| <= most unit.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        unit: Positive = 0.5,
        most: Annotated[int, Rule(whole=True, least=1)] = 3,
    ) -> None:
        super().__init__(T, memory)
        self.unit, self.most = unit, most

    def forward(self, x: Tensor) -> Tensor:
        inside = x.clamp(-self.most * self.unit, self.most * self.unit)
        return self.unit * self.count(x) + inside - inside.detach()

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        n = self.count(x)
        return torch.stack([self.unit * n.sign() * (n.abs() > step) for step in range(self.most)])

    def count(self, x: Tensor) -> Tensor:
        """n, which has no gradient."""
        return (x.detach() / self.unit).round().clamp(-self.most, self.most)
