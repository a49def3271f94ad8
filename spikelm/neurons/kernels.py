"""Spike functions over all T time steps at once, each with a closed-form backward.

Clip family (LIF and bi-spike), m_t the membrane, a_t the amplitude, q_t = m_t / a_t, f_t the fired level:
    m_t = x_t + r_{t-1} * m_{t-1}      r_t = gain_t * (1 - f_t)  or  gain_t * (1 - |f_t|), detached
    s_t = a_t * f_t                    f_t in {-1, 0, 1}
    dL/dm_t = dL/ds_t * [q_t inside the clip range] + r_t * dL/dm_{t+1},   dL/dx_t = dL/dm_t
so the backward needs one small integer per value, never the membrane itself.

Arctan family (SpikingJelly's LIF, and PSN): the surrogate depends on the membrane, which is computed
again from the saved input.

On a CPU these functions are bound by memory passes: masks are floats written in place, because comparing
into booleans and multiplying by them is several times slower there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: values per time step worked on at a time on a CPU, so that scratch memory stays in cache
CHUNK = 1 << 19


@dataclass(frozen=True)
class ClipRule:
    """How a clip-family neuron fires and resets; see the module's equations."""

    bidirectional: bool
    fire: Literal["round", "above", "reach"]  # |q| > 1/2, |q| > 1, q >= 1 (unidirectional only)
    beta: float  # 0 = no memory between time steps
    scaled: bool  # gain_t = beta * a_t (the released reset) or beta
    symmetric: bool  # reset by 1 - |f| instead of 1 - f

    def gain(self, a: Tensor) -> Tensor | float:
        return self.beta * a if self.scaled else self.beta


def wide(x: Tensor) -> Tensor:
    """x in at least single precision: membranes are never kept in half precision."""
    return x.float() if x.dtype.itemsize < 4 else x


def _fire(q: Tensor, fired: Tensor, rule: ClipRule) -> None:
    """Write the fired level of q into `fired` and turn q into the mask [q inside the clip range]."""
    torch.clamp(q, -1.0 if rule.bidirectional else 0.0, 1.0, out=fired)
    torch.eq(q, fired, out=q)
    if rule.fire == "round":
        fired.round_()  # half to even: exactly a/2 stays silent
    elif rule.fire == "reach":
        fired.floor_()
    else:
        fired.addcmul_(fired, q, value=-1)  # only what was clipped fires


def clip_run(
    x: Tensor,
    rule: ClipRule,
    amplitude: Callable[[int, Tensor], Tensor],
    spikes: Tensor,
    codes: Tensor | None = None,
    membranes: Tensor | None = None,
) -> None:
    """Write the spikes of x (T, ...) into `spikes`; `amplitude(t, m_t)` gives a_t.

    `codes` (int8) and `membranes`, where given, are filled for the backward:
    code = [inside the clip range] + 2 (1 - f), the second term only where a next step needs it.
    """
    steps = x.shape[0]
    inside = torch.empty_like(x[0])
    if rule.beta and steps > 1:
        share, potential, one = torch.empty_like(x[0]), torch.empty_like(x[0]), x.new_ones(())
    m = x[0]
    for t in range(steps):
        if membranes is not None:
            membranes[t] = m
        a = amplitude(t, m)
        fired = spikes[t]
        torch.div(m, a, out=inside)
        _fire(inside, fired, rule)
        remembers = bool(rule.beta) and t + 1 < steps
        if remembers:  # the share of the membrane that survives the reset
            torch.sub(one, fired.abs() if rule.symmetric else fired, out=share)
        if codes is not None:
            codes[t] = inside.add_(share, alpha=2) if remembers else inside
        fired.mul_(a)
        if remembers:
            m = torch.addcmul(x[t + 1], m, share.mul_(rule.gain(a)), out=potential)
        elif t + 1 < steps:
            m = x[t + 1]


class ClipSpike(torch.autograd.Function):
    """Clip-family spikes; gradient to x by the straight-through estimator, to alpha by LSQ if it learns."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, rule: ClipRule) -> Tensor:
        flat = x.flatten(1)
        spikes = torch.empty_like(flat)
        codes = torch.empty_like(flat, dtype=torch.int8) if any(ctx.needs_input_grad) else None
        membranes = torch.empty_like(flat) if ctx.needs_input_grad[1] else None
        size = CHUNK if x.is_cpu else max(1, flat.shape[1])
        for start in range(0, flat.shape[1], size):
            part = slice(start, start + size)
            clip_run(
                flat[:, part],
                rule,
                lambda t, m: alpha[t],
                spikes[:, part],
                None if codes is None else codes[:, part],
                None if membranes is None else membranes[:, part],
            )
        ctx.rule = rule
        ctx.save_for_backward(codes, alpha, membranes)
        return spikes.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rule: ClipRule = ctx.rule
        codes, alpha, membranes = ctx.saved_tensors
        shape, grad = grad.shape, grad.flatten(1)
        grad_x = torch.empty_like(grad).copy_(codes & 1).mul_(grad)
        if rule.beta:
            for t in range(grad.shape[0] - 2, -1, -1):
                carry = (codes[t] >> 1).to(grad.dtype).mul_(rule.gain(alpha[t]))
                grad_x[t].addcmul_(grad_x[t + 1], carry)
        grad_alpha = None if membranes is None else _lsq_gradient(grad, membranes, alpha, rule)
        return grad_x.view(shape), grad_alpha, None


def _lsq_gradient(grad: Tensor, m: Tensor, alpha: Tensor, rule: ClipRule) -> Tensor:
    """dL/da_t = sum g (round(q) - q inside, the clipped level outside) / sqrt(values per step)."""
    q = m / alpha[:, None]
    inside, fired = q.clone(), torch.empty_like(q)
    _fire(inside, fired, rule)
    slope = fired.addcmul_(q, inside, value=-1)
    return (grad * slope).sum(1) / math.sqrt(m[0].numel())


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
