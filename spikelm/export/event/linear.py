"""A linear of int8 weights that reads events: of floats that fire on a threshold, or of whole numbers of a code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spikelm.export.event.library import crossing, library, path_in_use
from spikelm.export.linears import SpikeLinear
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels

RULES = {"round": 0, "above": 1, "reach": 2}  # of ClipRule.fire, as the library numbers them


class EventLinear(SpikeLinear):
    """SpikeLinear in int8, with the same weights and the same results; `top` is the largest number that it reads."""

    def __init__(self, inputs: int, outputs: int, heights: int, top: int = 1) -> None:
        super().__init__(inputs, outputs, heights, "int8")
        self.top = top
        self._lines: tuple[Any, Tensor] | None = None  # the weights in tiles, and of which weights

    def fired(self, x: Tensor, threshold: Tensor, rule: ClipRule, residual: Tensor | None = None) -> Tensor:
        """y of the spikes that x (T, rows, in) fires without memory of other time steps, plus a residual."""
        if reads(x):
            return self._product(x, threshold, rule, 0, None, residual)
        y = super().forward(levels(x, threshold, rule))
        return y if residual is None else y + residual

    def forward(
        self, levels: Tensor, step: Tensor | None = None, residual: Tensor | None = None, biased: bool = True
    ) -> Tensor:
        if reads(levels):
            return self._product(levels, None, None, self.top, step, residual, biased)
        return super().forward(levels, step, residual, biased)

    def _product(
        self,
        x: Tensor,
        threshold: Tensor | None,
        rule: ClipRule | None,
        top: int,
        step: Tensor | None,
        residual: Tensor | None,
        biased: bool = True,
    ) -> Tensor:
        assert self.scale is not None
        path = path_in_use()
        negative = rule is None or rule.bidirectional
        fire = 0 if rule is None else RULES[rule.fire]
        steps = None if step is None else step.flatten(1)
        bias = self.bias if biased else torch.zeros_like(self.bias)
        weights = self._tiles(), self.weight, self.scale.squeeze(1), bias
        y: Tensor = library().linear(
            x.contiguous(), threshold, fire, negative, top, *weights, steps, residual, crossing(path), path
        )
        return y

    def _tiles(self) -> Tensor:
        key = (self.weight.data_ptr(), 0 if self.weight.is_inference() else self.weight._version)
        if self._lines is None or self._lines[0] != key:
            self._lines = key, library().pack(self.weight)
        return self._lines[1]


def reads(x: Tensor) -> bool:
    """Whether the library is for such floats, and there at all."""
    return x.is_cpu and x.dtype == torch.float32 and x.numel() > 0 and x.shape[-1] > 1 and library() is not None
