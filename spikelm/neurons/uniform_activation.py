"""Activations of b bits on a scale that follows the largest value seen (Q8BERT's recipe; Q2BERT)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from spikelm.neurons.amplitude import ALPHA_FLOOR, AmplitudeNeuron, largest_magnitude
from spikelm.neurons.kernels.rounding import Uniform, top_level
from spikelm.rules import NotNegative


class UniformActivation(AmplitudeNeuron):
    """clamp(round(x / S), -M, M) S, M = 2^(b-1) - 1, S = alpha / M; the gradient passes everywhere.

    alpha is the moving average of max|x| over training batches: decay alpha + (1 - decay) max|x|.
    """

    follows = True

    def __init__(self, T: int, memory: bool = True, width: Literal[2, 4, 8] = 8, decay: NotNegative = 0.999) -> None:
        super().__init__(T, memory, elastic=True, learnable=False)
        self.width = width
        self.decay = decay

    def forward(self, x: Tensor) -> Tensor:
        was_ready = self.ready
        self.set_from(x)
        if was_ready and self.training and self.observing:
            self.alpha.lerp_(largest_magnitude(x).to(self.alpha.dtype), 1 - self.decay)
        top = top_level(self.width)
        step = (self.alpha.to(x.dtype).clamp_min(ALPHA_FLOOR) / top).view(-1, *[1] * (x.dim() - 1))
        return Uniform.apply(x, step, top)

    def find_alpha(self, x: Tensor) -> None:
        self.alpha.copy_(largest_magnitude(x))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}"
