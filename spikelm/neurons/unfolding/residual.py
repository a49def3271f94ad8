"""The residual ternary code: several ternary spikes a value, each of which codes what the ones before it left over."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.errors import ConfigError
from spikelm.neurons.amplitude import ALPHA_FLOOR, mean_magnitude
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron, per_step, per_token
from spikelm.neurons.unfolding.writing import balanced_ternary
from spikelm.rules import Positive, Rule

Steps = Annotated[int, Rule(whole=True, least=1, most=8)]
Divisor = Annotated[float, Rule(above=1)]


class Residual(CodedNeuron):
    """s_v = a_v clip(round(m_v / a_v), -1, 1), m_1 = x, m_{v+1} = m_v - s_v; the output is s_1 + ... + s_V.

    No membrane is carried over the T time steps. The gradient passes where |x| <= a_1 + ... + a_V.
    scale=layer: a_1 = k mean|x| over the first training batch, one for each time step.
    scale=token: a_1 + ... + a_V = reach max|x| of the token, so that no data has to be seen before.
    heights=ratio: a_{v+1} = a_v / divisor. With divisor 3 the code is balanced ternary, x rounded to the nearest of 3^V
    equal levels, and is computed as such: the two differ in ties alone.
    heights=data: a_{v+1} = k mean|m_{v+1}| over the first batch. `calibrate` keeps the mean a_1 of its batches and the
    ratios of the last one.
    alpha=learnable: a_1 learns by LSQ's gradient, the ratios stay.
    """

    ratios: Tensor | None

    def __init__(
        self,
        T: int,
        memory: bool = True,
        steps: Steps = 2,
        k: Positive = 2.5,
        scale: Literal["layer", "token"] = "layer",
        heights: Literal["ratio", "data"] = "ratio",
        divisor: Divisor = 3.0,
        reach: Positive = 1.0,
        alpha: Literal["frozen", "learnable"] = "frozen",
    ) -> None:
        if scale == "token" and (heights == "data" or alpha == "learnable"):
            raise ConfigError(
                "with scale=token each token sets its heights itself, neither data nor learning does",
                "scale=layer, or heights=ratio alpha=frozen",
            )
        self.per_token = scale == "token"
        self.steps, self.k, self.divisor, self.range_share = steps, k, divisor, reach
        self.whole = divisor == 3 and heights == "ratio"  # balanced ternary
        super().__init__(T, memory, elastic=not self.per_token, learnable=alpha == "learnable")
        self.register_buffer("ratios", torch.ones(steps, T) if heights == "data" else None)
        top = (3**steps - 1) // 2
        whole_token = self.per_token and reach >= 1  # then nothing is out of range but for rounding
        self.rule = WholeRule(-top, top, passes="everywhere" if whole_token else "range")

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.ratios is not None:
            self.ratios.fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        if self.whole:
            return super().forward(x)
        values = wide(x)
        spikes: Tensor = _ResidualSum.apply(values, *self._code(values))
        return spikes.to(x.dtype)

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        if self.whole:
            return super().unfold(x)
        values = wide(x)
        return ternary_steps(values, *self._code(values)).to(x.dtype)

    def step(self, x: Tensor) -> Tensor:
        """a_V of balanced ternary."""
        if self.per_token:
            return per_token(x, self.range_share / self.rule.high)
        self.set_from(x)
        return per_step(self.alpha, x) * 3.0 ** (1 - self.steps)

    def write(self, n: Tensor) -> Tensor:
        return balanced_ternary(n, self.steps)

    @torch.no_grad()
    def limits(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.whole:
            return super().limits(x)
        first, ratios = self._code(wide(x))
        highest = first * ratios.sum(0)
        return -highest, highest

    def _code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """a_1 and all a_v / a_1, shaped to go with x (T, ...)."""
        if not self.per_token:
            self.set_from(x)
        over = [1] * (x.dim() - 1)
        if self.ratios is not None:
            ratios = self.ratios.to(x.dtype).view(self.steps, self.T, *over)
        else:
            powers = [x.new_full([1] * x.dim(), self.divisor**-v) for v in range(self.steps)]
            ratios = torch.stack(powers)
        if self.per_token:
            return per_token(x, self.range_share / sum(self.divisor**-v for v in range(self.steps))), ratios
        return per_step(self.alpha, x), ratios

    def find_alpha(self, x: Tensor) -> None:
        for t, step in enumerate(x):
            self.alpha[t] = (self.k * mean_magnitude(step)).clamp_min(ALPHA_FLOOR)
            if self.ratios is None:
                continue
            rest, height = step, self.alpha[t].to(x.dtype)
            for v in range(1, self.steps):
                rest = rest - (rest / height).round().clamp(-1, 1) * height
                height = (self.k * mean_magnitude(rest)).clamp_min(ALPHA_FLOOR)
                self.ratios[v, t] = height / self.alpha[t]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, steps={self.steps}, k={self.k}, per_token={self.per_token}"


def ternary_steps(x: Tensor, first: Tensor, ratios: Tensor) -> Tensor:
    """s_1 ... s_V (V, T, ...) of x, with heights a_v = first * ratios[v]; `first` and `ratios[v]` broadcast over x."""
    rest, spikes = x, []
    for ratio in ratios:
        height = first * ratio
        spike = (rest / height).round_().clamp_(-1, 1).mul_(height)  # half to even: exactly a/2 stays silent
        rest = rest - spike
        spikes.append(spike)
    return torch.stack(spikes)


class _ResidualSum(torch.autograd.Function):
    """y = s_1 + ... + s_V of any heights; dL/dx = g [|x| <= a_1 + ... + a_V].

    dL/da_1 with all ratios fixed is LSQ's, as of balanced ternary: sum g ((y - x) / a_1 inside, y / a_1 outside) over
    the root of N values in a time step times the highest level, (a_1 + ... + a_V) / a_V.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, ratios: Tensor) -> Tensor:
        y = ternary_steps(x, first, ratios).sum(0)
        total = ratios.sum(0)
        inside = x.abs() <= first * total * (1 + torch.finfo(x.dtype).eps * len(ratios))  # a token's largest is inside
        kept = (x, y, first, total / ratios[-1]) if ctx.needs_input_grad[1] else ()
        ctx.save_for_backward(inside, *kept)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        inside, *kept = ctx.saved_tensors
        grad_first = None
        if kept:
            x, y, first, top = kept
            slope = (y - x * inside) / first
            grad_first = (grad * slope).flatten(1).sum(1).view_as(first) / math.sqrt(x[0].numel()) * top.rsqrt()
        return grad * inside, grad_first, None
