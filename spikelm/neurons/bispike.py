"""The elastic bi-spike of SpikeLM (paper section 4): direction, frequency and amplitude of a spike."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from spikelm.neurons.amplitude import ALPHA_FLOOR, AmplitudeNeuron, mean_magnitude
from spikelm.neurons.kernels.clip import clip_run, clip_spikes
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels, quick
from spikelm.neurons.kernels.precision import wide
from spikelm.rules import NotNegative, Positive


class BiSpike(AmplitudeNeuron):
    """s_t = a_t clip(round(m_t / a_t), -1, 1), a_t = k mean|m_t| over the first training batch.

    direction: bi {-a, 0, a} or uni {0, a}.  elastic=False fixes a = 1 (the paper's N/A).
    fire: round (|m| > a/2, as released) or paper (|m| > a).
    reset, what is left of m_t for the next step: code beta m (a - s), paper m (a - s),
    normalized beta m (1 - |s|/a), the only one that does not depend on the scale of x.
    alpha: frozen after the first batch, or learnable with the LSQ gradient.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        k: Positive = 2.0,
        direction: Literal["bi", "uni"] = "bi",
        elastic: bool = True,
        alpha: Literal["frozen", "learnable"] = "frozen",
        fire: Literal["round", "paper"] = "round",
        reset: Literal["code", "paper", "normalized"] = "code",
        beta: NotNegative = 0.25,
    ) -> None:
        super().__init__(T, memory, elastic, learnable=alpha == "learnable")
        self.k = k
        self.rule = ClipRule(
            bidirectional=direction == "bi",
            fire="round" if fire == "round" else "above",
            beta=(1.0 if reset == "paper" else beta) if memory else 0.0,
            scaled=reset != "normalized",
            symmetric=reset == "normalized",
        )

    def forward(self, x: Tensor) -> Tensor:
        if quick(x) and self.ready and not self.learnable:
            alpha = self.alpha.to(x.dtype)
            return levels(x, alpha, self.rule).mul_(alpha)
        membrane_input = wide(x)
        self.set_from(membrane_input)
        alpha = self.alpha.to(membrane_input.dtype)
        if self.learnable:
            alpha = alpha.clamp_min(ALPHA_FLOOR)
        return clip_spikes(x, alpha, self.rule, self.compiled)

    def heights(self, like: Tensor) -> Tensor | None:
        return (self.alpha.clamp_min(ALPHA_FLOOR) if self.learnable else self.alpha).to(like.dtype)

    def find_alpha(self, x: Tensor) -> None:
        """a_t = k mean|m_t|, step by step because m_{t+1} depends on the spikes at t (paper equation 11)."""

        def amplitude(t: int, m: Tensor) -> Tensor:
            self.alpha[t] = (self.k * mean_magnitude(m)).clamp_min(ALPHA_FLOOR)
            return self.alpha[t].to(x.dtype)

        clip_run(x, self.rule, amplitude, torch.empty_like(x))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, {self.rule}"
