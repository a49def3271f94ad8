"""LIF whose time is the sequence of tokens (SpikeGPT): one spike a token, the membrane goes from token to token."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.errors import ConfigError
from spikelm.neurons.kernels.leaky import LeakyArctan, leaky_potentials
from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.surrogates import arctan_slope
from spikelm.neurons.neuron import Neuron
from spikelm.rules import Positive


class _TokenArctan(LeakyArctan):
    """The leaky recurrence over the first axis with the reset in the gradient, which SpikeGPT does not detach.

    v_t = h_t (1 - s_t), so dv_t/dh_t = 1 - s_t - h_t s'(h_t - theta).
    """

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        h = leaky_potentials(wide(x), ctx.tau, ctx.threshold)
        slope = arctan_slope(h - ctx.threshold)
        grad_h = grad * slope
        keep = slope.mul_(h).neg_().add_(h.lt_(ctx.threshold)).mul_(1 - 1 / ctx.tau)
        for t in range(x.shape[0] - 2, -1, -1):
            grad_h[t].addcmul_(grad_h[t + 1], keep[t])
        return grad_h.div_(ctx.tau).to(x.dtype), None, None


class LIFToken(Neuron):
    """h_i = v_{i-1} + (x_i - v_{i-1}) / tau; s_i = [h_i >= theta]; v_i = h_i (1 - s_i), i the tokens of (1, B, n, D).

    The arctan surrogate has slope 1 at the threshold; the gradient goes through the reset.
    """

    def __init__(self, T: int = 1, memory: bool = True, tau: Positive = 2.0, theta: Positive = 1.0) -> None:
        super().__init__(T, memory)
        if T != 1:
            raise ConfigError(f"T={T}: a neuron over tokens has one time step", "T=1")
        self.tau = tau
        self.theta = theta

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.movedim(-2, 0).contiguous()
        return _TokenArctan.apply(tokens, self.tau, self.theta).movedim(0, -2)

    def step(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """One token: its spikes, and the membrane that the next one finds."""
        h = v + (wide(x) - v) / self.tau
        spikes = (h >= self.theta).to(h.dtype)
        return spikes.to(x.dtype), h * (1 - spikes)
