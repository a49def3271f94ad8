"""The leaky recurrence of SpikingJelly's LIF over all T time steps at once, with a closed-form backward.

The surrogate depends on the membrane, which is computed again from the saved input. The clip family (LIF and bi-spike
of the paper) is in clip.py. Masks are floats written in place: on a CPU these functions are bound by memory passes, and
comparing into booleans and multiplying by them is several times slower there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.precision import wide
from spikelm.neurons.kernels.surrogates import arctan_slope, sigmoid_slope


def leaky_potentials(x: Tensor, tau: float, threshold: float) -> Tensor:
    """h_t = v_{t-1} + (x_t - v_{t-1}) / tau; v_t = h_t (1 - [h_t >= threshold])."""
    h = torch.empty_like(x)
    v = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        torch.sub(x[t], v, out=h[t]).div_(tau).add_(v)
        torch.lt(h[t], threshold, out=v).mul_(h[t])
    return h


def _leaky_gradient(x: Tensor, grad: Tensor, tau: float, threshold: float, slope: Callable[[Tensor], Tensor]) -> Tensor:
    """dL/dh_t = dL/ds_t slope(h_t - threshold) + (1 - 1/tau) [h_t < threshold] dL/dh_{t+1};  dL/dx = dL/dh / tau."""
    h = leaky_potentials(wide(x), tau, threshold)
    grad_h = grad * slope(h - threshold)
    keep = h.lt_(threshold).mul_(1 - 1 / tau)
    for t in range(x.shape[0] - 2, -1, -1):
        grad_h[t].addcmul_(grad_h[t + 1], keep[t])
    return grad_h.div_(tau).to(x.dtype)


class LeakyArctan(torch.autograd.Function):
    """LIF as in SpikingJelly: decaying input, hard reset to 0 (detached), arctan surrogate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tau: float, threshold: float) -> Tensor:
        ctx.tau, ctx.threshold = tau, threshold
        ctx.save_for_backward(x)
        return leaky_potentials(wide(x), tau, threshold).ge_(threshold).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return _leaky_gradient(x, grad, ctx.tau, ctx.threshold, arctan_slope), None, None


class LeakySigmoid(torch.autograd.Function):
    """The same with the sigmoid surrogate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tau: float, threshold: float, sharpness: float) -> Tensor:
        ctx.tau, ctx.threshold, ctx.sharpness = tau, threshold, sharpness
        ctx.save_for_backward(x)
        return leaky_potentials(wide(x), tau, threshold).ge_(threshold).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        slope = partial(sigmoid_slope, sharpness=ctx.sharpness)
        return _leaky_gradient(x, grad, ctx.tau, ctx.threshold, slope), None, None, None
