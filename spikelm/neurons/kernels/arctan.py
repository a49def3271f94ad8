"""Spike functions of the arctan family over all T time steps at once, each with a closed-form backward.

SpikingJelly's LIF, and PSN: the surrogate depends on the membrane, which is computed again from the saved input. The
clip family (LIF and bi-spike of the paper) is in clip.py.

On a CPU these functions are bound by memory passes: masks are floats written in place, because comparing
into booleans and multiplying by them is several times slower there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def wide(x: Tensor) -> Tensor:
    """x in at least single precision: membranes are never kept in half precision."""
    return x.float() if x.dtype.itemsize < 4 else x


def arctan_slope(distance: Tensor, sharpness: float = 2.0) -> Tensor:
    """Derivative of the arctan surrogate, (a/2) / (1 + (pi a u / 2)^2), u the distance to the threshold."""
    return (sharpness / 2) / (math.pi / 2 * sharpness * distance).square_().add_(1)


def sigmoid_slope(distance: Tensor, sharpness: float = 4.0) -> Tensor:
    """Derivative of sigma(a u), a sigma (1 - sigma)."""
    level = torch.sigmoid(sharpness * distance)
    return sharpness * level * (1 - level)


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


def _parallel_potentials(flat: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    with torch.autocast(flat.device.type, enabled=False):  # which would round the membrane to half precision
        return torch.addmm(bias, weight, flat)


class ParallelArctan(torch.autograd.Function):
    """PSN: h = W x + b over the time axis, s = [h >= 0], arctan surrogate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return _parallel_potentials(wide(x).flatten(1), weight, bias).ge_(0).to(x.dtype).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, bias = ctx.saved_tensors
        flat = wide(x).flatten(1)
        grad_h = grad.flatten(1) * arctan_slope(_parallel_potentials(flat, weight, bias))
        grad_x = (weight.t() @ grad_h).view(x.shape).to(x.dtype)
        return grad_x, grad_h @ flat.t(), grad_h.sum(1, keepdim=True)
