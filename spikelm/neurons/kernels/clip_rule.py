"""How a neuron of the clip family (LIF and bi-spike of the paper) fires and resets, whichever kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor


@dataclass(frozen=True)
class ClipRule:
    """m_t the membrane, a_t the amplitude, q_t = m_t / a_t, f_t the level that fires; the equations are in clip.py."""

    bidirectional: bool
    fire: Literal["round", "above", "reach"]  # |q| > 1/2, |q| > 1, q >= 1 (unidirectional only)
    beta: float  # 0 = no memory between time steps
    scaled: bool  # gain_t = beta * a_t (the released reset) or beta
    symmetric: bool  # reset by 1 - |f| instead of 1 - f

    def gain(self, a: Tensor) -> Tensor | float:
        return self.beta * a if self.scaled else self.beta

    @property
    def low(self) -> float:
        """The lower end of the clip range."""
        return -1.0 if self.bidirectional else 0.0
