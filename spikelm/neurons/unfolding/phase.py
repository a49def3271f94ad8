"""Multi-granularity phase coding: one bit per code step, weighted by a falling power of a base (SpikingLLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.neurons.amplitude import ALPHA_FLOOR, largest_magnitude
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.whole import WholeRule
from spikelm.neurons.unfolding.coded import CodedNeuron, per_step
from spikelm.neurons.unfolding.writing import bits
from spikelm.rules import Rule

BASE = 2.0


class Fire(torch.autograd.Function):
    """[u > 0]; du = g sigmoid(u) (1 - sigmoid(u))."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u)
        return (u > 0).to(u.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        slope = u.sigmoid()
        return grad * slope * (1 - slope)


def phase_code(
    x: Tensor, genotype: Sequence[int], d: Tensor, h: Tensor, theta: Tensor, tau: Tensor, v0: Tensor
) -> tuple[Tensor, Tensor]:
    """The bits of |x| (steps, ...) and the value y that they stand for; c = genotype[t] is the grain of code step t.

    v = |x| + v0; z_t = [v > theta_c^-(t+1) tau]; v -= z_t h_c^-(t+1) tau; y += sign(x) z_t d_c^-(t+1) tau.
    Everything is differentiable, membrane included; [.] has the derivative of a sigmoid.
    """
    sign = torch.sign(x)
    v = x.abs() + v0
    y = torch.zeros_like(x)
    spikes = []
    for t, c in enumerate(genotype):
        z = Fire.apply(v - theta[c] ** -(t + 1) * tau)
        v = v - z * (h[c] ** -(t + 1) * tau)
        y = y + sign * z * (d[c] ** -(t + 1) * tau)
        spikes.append(z)
    return torch.stack(spikes), y


class Phase(CodedNeuron):
    """sign(x) sum_t z_t d^-(t+1) tau: a spike or none at each of `steps` code steps (see `phase_code`).

    tau = max|x| of the first training batch, one per time step, and v0 = tau 2^-steps / 2. With all bases at 2 this is
    |x| rounded to whole multiples of tau 2^-steps, a half towards zero, and unfolds into its bits; it is computed as
    such, and the gradient passes where x is in range. The steps are shared by `grains` evenly and in order, each with
    bases d, h and theta of its own. `learnable` trains them from 2, with the released gradient.
    """

    d: Tensor
    h: Tensor
    theta: Tensor

    def __init__(
        self,
        T: int,
        memory: bool = True,
        steps: Annotated[int, Rule(whole=True, least=1, most=16)] = 8,
        grains: Annotated[int, Rule(whole=True, least=1)] = 1,
        learnable: bool = False,
    ) -> None:
        super().__init__(T, memory, elastic=True, learnable=False)
        if grains > steps:
            raise SpikeLMError(f"grains={grains} is more than steps={steps}", "choose at most one grain per step")
        if grains > 1 and not learnable:
            raise ConfigError(
                f"grains={grains} have bases of their own only where they learn: all of them are {BASE:g}",
                "learnable=true, or grains=1",
            )
        self.steps = steps
        self.grains = grains
        self.whole = not learnable
        self.genotype = tuple(t * grains // steps for t in range(steps))
        self.rule = WholeRule(-(2**steps - 1), 2**steps - 1, half="down")
        if learnable:
            for name in ("d", "h", "theta"):
                self.register_parameter(name, nn.Parameter(torch.full((grains,), BASE)))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        for base in (self.d, self.h, self.theta) if not self.whole else ():
            base.fill_(BASE)

    def step(self, x: Tensor) -> Tensor:
        self.set_from(x)
        return per_step(self.alpha, x) * 2.0**-self.steps

    def write(self, n: Tensor) -> Tensor:
        return bits(n, self.steps)

    def forward(self, x: Tensor) -> Tensor:
        if self.whole:
            return super().forward(x)
        return self._code(wide(x))[1].to(x.dtype)

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        """sign(x) z_t d^-(t+1) tau, one virtual step per code step."""
        if self.whole:
            return super().unfold(x)
        values = wide(x)
        spikes, _ = self._code(values)
        tau, d, sign = per_step(self.alpha, values), self.d.to(values.dtype), torch.sign(values)
        heights = [d[c] ** -(t + 1) * tau for t, c in enumerate(self.genotype)]
        return torch.stack([sign * z * height for z, height in zip(spikes, heights, strict=True)]).to(x.dtype)

    def _code(self, values: Tensor) -> tuple[Tensor, Tensor]:
        self.set_from(values)
        tau = per_step(self.alpha, values)
        d, h, theta = (base.to(values.dtype) for base in (self.d, self.h, self.theta))
        return phase_code(values, self.genotype, d, h, theta, tau, 0.5 * tau * 2.0**-self.steps)

    def find_alpha(self, x: Tensor) -> None:
        self.alpha.copy_(largest_magnitude(x).clamp_min(ALPHA_FLOOR))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, steps={self.steps}, grains={self.grains}, learnable={not self.whole}"
