"""LIF with the clip straight-through estimator (paper equations 1 to 3 and appendix A.1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from spikelm.neurons.kernels.clip import clip_spikes
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels, quick
from spikelm.neurons.kernels.packing import Packed, packed_of
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.neuron import Neuron
from spikelm.rules import NotNegative, Positive


class LIF(Neuron):
    """m_t = v_{t-1} + x_t; s_t = [m_t >= theta]; v_t = beta m_t (1 - s_t); ds/dm = [0 <= m <= theta] / theta.

    fire=round fires at m > theta/2 instead, which is what rounding the clipped membrane does.
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        beta: NotNegative = 0.25,
        theta: Positive = 1.0,
        fire: Literal["threshold", "round"] = "threshold",
    ) -> None:
        super().__init__(T, memory)
        self.theta = theta
        self.rule = ClipRule(
            bidirectional=False,
            fire="reach" if fire == "threshold" else "round",
            beta=beta if memory else 0.0,
            scaled=False,
            symmetric=False,
        )

    def forward(self, x: Tensor) -> Tensor:
        if quick(x):
            return levels(x, self._theta(x), self.rule)
        # The kernel works on m / a with spikes of height a; a LIF spike has height 1 whatever theta is.
        if self.theta == 1.0:
            return clip_spikes(x, self._theta(x), self.rule, self.compiled)
        spikes = clip_spikes(wide(x), self._theta(x), self.rule, self.compiled)
        unit_spikes = (spikes / self.theta).to(x.dtype)
        if packed := packed_of(spikes):
            unit_spikes.packed = Packed.ternary(packed.levels, packed.alpha / self.theta, unit_spikes.shape)  # type: ignore[attr-defined]
        return unit_spikes

    def heights(self, like: Tensor) -> Tensor | None:
        return like.new_ones(self.T)

    def _theta(self, x: Tensor) -> Tensor:
        dtype = torch.promote_types(x.dtype, torch.float32)
        return torch.full((self.T,), self.theta, dtype=dtype, device=x.device)
