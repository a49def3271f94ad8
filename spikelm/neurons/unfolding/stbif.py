"""ST-BIF: a quantiser with a learned step whose levels are a train of signed spikes (SpikeZIP-TF)."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from spikelm.errors import SpikeLMError
from spikelm.neurons.amplitude import ALPHA_FLOOR, mean_magnitude
from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron, per_step
from spikelm.rules import Rule


def spike_train(inputs: Tensor, s: Tensor | float, lo: int, hi: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ST-BIF dynamics over inputs (V, ...): spikes (V, ...) of -1, 0 and 1, the last membrane and tracer.

    q = 0.5 and A = 0 at first; q += x_v / s; z = 1 if q >= 1 and A < hi, -1 if q < 0 and A > lo, else 0;
    q -= z; A += z. Once the input stops, hi - lo more steps at most settle it, and s sum z is then the quantiser's
    value of the summed input, in whatever order it came; only ties at half steps may differ by rounding.
    """
    membrane = torch.full_like(inputs[0], 0.5)
    tracer = torch.zeros_like(membrane)
    spikes = torch.empty_like(inputs)
    for v, each in enumerate(inputs):
        spikes[v], membrane, tracer = st_bif_step(each / s, membrane, tracer, lo, hi)
    return spikes, membrane, tracer


def st_bif_step(x: Tensor, membrane: Tensor, tracer: Tensor, lo: int, hi: int) -> tuple[Tensor, Tensor, Tensor]:
    """One step of `spike_train` for an input in units of s: the spikes, the membrane q and the tracer A after it."""
    membrane = membrane + x
    up = (membrane - 1 >= 0) & (tracer < hi)
    down = (membrane < 0) & (tracer > lo)
    spikes = up.to(x.dtype) - down.to(x.dtype)
    return spikes, membrane - spikes, tracer + spikes


class STBIF(CodedNeuron):
    """s clamp(floor(x / s + 0.5), lo, hi): L levels, lo..hi = -L/2..L/2 - 1, or 0..L - 1 where not `signed`.

    s learns, one per time step, from 2 mean|x| / sqrt(hi) of the first batch. The output unfolds into the spikes -s, 0
    and s of ST-BIF neurons that read the whole input at the first virtual step and nothing afterwards: a level n takes
    |n| spikes, so max(hi, -lo) virtual steps are enough. They read the level, not x, so that no tie is rounded twice.
    The gradient passes where lo <= floor(x / s + 0.5) <= hi, half a step wider than LSQ's.
    """

    def __init__(
        self, T: int, memory: bool = True, levels: Annotated[int, Rule(whole=True, least=4)] = 16, signed: bool = True
    ) -> None:
        super().__init__(T, memory, elastic=True, learnable=True)
        if levels % 2:
            raise SpikeLMError(f"levels={levels} is odd", "choose an even number of levels")
        self.levels = levels
        self.signed = signed
        lowest, highest = (-levels // 2, levels // 2 - 1) if signed else (0, levels - 1)
        self.rule = WholeRule(lowest, highest, half="up", passes="rounded")

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        return self.rule.low, self.rule.high

    def step(self, x: Tensor) -> Tensor:
        self.set_from(x)
        return per_step(self.alpha, x)

    def write(self, n: Tensor) -> Tensor:
        """The spikes of ST-BIF neurons that read n at the first virtual step."""
        lo, hi = self.bounds
        inputs = n.new_zeros(max(hi, -lo), *n.shape)
        inputs[0] = n
        return spike_train(inputs, 1.0, lo, hi)[0]

    def find_alpha(self, x: Tensor) -> None:
        for t, step in enumerate(x):
            self.alpha[t] = (2 * mean_magnitude(step) / math.sqrt(self.bounds[1])).clamp_min(ALPHA_FLOOR)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, levels={self.levels}, signed={self.signed}"
