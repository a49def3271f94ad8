"""Ternary activations by TWN's rule, with the scale of each batch (TernaryBERT 2-2-2)."""

from __future__ import annotations

from torch import Tensor

from spikelm.neurons.kernels.rounding import Ternary
from spikelm.neurons.neuron import Neuron
from spikelm.rules import Positive


class TernaryActivation(Neuron):
    """a sign(x) [|x| > d], d = 0.7 mean|x|, a = mean of |x| over |x| > d, for each time step.

    TernaryBERT 2-2-2 computes d and a anew for every batch; the gradient passes where |x| < clip
    (docs/paper/lowbit.md).
    """

    def __init__(self, T: int, memory: bool = True, clip: Positive = 2.5) -> None:
        super().__init__(T, memory)
        self.clip = clip

    def forward(self, x: Tensor) -> Tensor:
        return Ternary.apply(x.flatten(1), self.clip, True).view(x.shape)
