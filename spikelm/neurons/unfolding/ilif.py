"""The integer leaky neuron I-LIF: integers in training, as many binary spikes in inference (SpikeYOLO, SDT-V3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.whole import WholeRule, whole_code
from spikelm.neurons.neuron import Neuron
from spikelm.neurons.unfolding.writing import ternary
from spikelm.rules import NotNegative, Rule


class ILIF(Neuron):
    """s_t = round(clamp(m_t, 0, D)), m_t = beta (m_{t-1} - s_{t-1}) + x_t; the gradient passes where 0 <= m_t <= D.

    A count s unfolds into D spikes [s > d], d = 0, ..., D - 1. The threshold is 1 whatever the scale of x. The spike in
    the reset has no gradient, the membrane has.

    levels: D.  signed: clamp to -D..D, gradient inside, spikes sign(s) [|s| > d] (ours).  normalized: s / D (SDT-V3).
    half: even as released, or up, floor(m + 1/2), whose gradient is zero at the ends 0 and D as well (SDT-V3 large).
    """

    def __init__(
        self,
        T: int,
        memory: bool = True,
        levels: Annotated[int, Rule(whole=True, least=1)] = 4,
        beta: NotNegative = 0.25,
        signed: bool = False,
        normalized: bool = False,
        half: Literal["even", "up"] = "even",
    ) -> None:
        super().__init__(T, memory)
        self.levels = levels
        self.beta = beta if memory else 0.0
        self.signed = signed
        self.normalized = normalized
        self.ties = half  # `half` is a method of every module
        self.rule = WholeRule(-levels if signed else 0, levels)

    def forward(self, x: Tensor) -> Tensor:
        if self.ties == "even" and not self.normalized and x.dtype.itemsize >= 4 and (self.T == 1 or not self.beta):
            return whole_code(x, self._unit(x), self.rule)  # the same without a membrane, in one go
        counts: Tensor = Integrate.apply(wide(x), self.levels, self.beta, self.signed, self.ties)
        return self._scaled(counts).to(x.dtype)

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        counts, _ = integrate(wide(x), self.levels, self.beta, self.signed, self.ties)
        return self._scaled(self.write(counts)).to(x.dtype)

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        unit = self._scaled(self._unit(x))
        return unit * self.rule.low, unit * self.rule.high

    def write(self, n: Tensor) -> Tensor:
        """A count as spikes (V, *shape) that add up to it."""
        return ternary(n, self.levels)

    def coding(self, x: Tensor) -> tuple[Tensor, torch.dtype] | None:
        return self._scaled(self._unit(wide(x))), self.rule.dtype

    def _unit(self, x: Tensor) -> Tensor:
        return x.new_ones([self.T] + [1] * (x.dim() - 1))

    def _scaled(self, counts: Tensor) -> Tensor:
        return counts * (1 / self.levels) if self.normalized else counts

    def extra_repr(self) -> str:
        settings = f"levels={self.levels}, beta={self.beta}, signed={self.signed}, normalized={self.normalized}"
        return f"{super().extra_repr()}, {settings}, half={self.ties}"


def integrate(x: Tensor, levels: int, beta: float, signed: bool, half: str) -> tuple[Tensor, Tensor]:
    """The counts s of x, and where the gradient passes."""
    counts, passes = torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)
    least = -levels if signed else 0
    m = x[0]
    for t in range(x.shape[0]):
        if t:
            m = x[t] if beta == 0 else beta * (m - counts[t - 1]) + x[t]
        inside = m.clamp(least, levels)
        if half == "even":
            counts[t] = inside.round()
            passes[t] = (m >= least) & (m <= levels)
        else:
            counts[t] = (inside + 0.5).floor()
            passes[t] = (m > least) & (m < levels)
    return counts, passes


class Integrate(torch.autograd.Function):
    """The counts; backwards dL/dx_t = g_t [0 <= m_t <= D] + beta dL/dx_{t+1}."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, levels: int, beta: float, signed: bool, half: str) -> Tensor:
        counts, passes = integrate(x, levels, beta, signed, half)
        ctx.beta = beta
        ctx.save_for_backward(passes)
        return counts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        (passes,) = ctx.saved_tensors
        result = grad * passes
        if ctx.beta:
            for t in reversed(range(result.shape[0] - 1)):
                result[t] += ctx.beta * result[t + 1]
        return result, None, None, None, None
