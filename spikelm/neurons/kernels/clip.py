"""Spikes of the clip family (LIF and bi-spike) over all T time steps at once, with a closed-form backward.

m_t the membrane, a_t the amplitude, q_t = m_t / a_t, f_t the fired level:
    m_t = x_t + r_{t-1} * m_{t-1}      r_t = gain_t * (1 - f_t)  or  gain_t * (1 - |f_t|), detached
    s_t = a_t * f_t                    f_t in {-1, 0, 1}
    dL/dm_t = dL/ds_t * [q_t inside the clip range] + r_t * dL/dm_{t+1},   dL/dx_t = dL/dm_t
so the backward needs f_t (two bits) and one bit of mask per value, never the membrane itself. The spikes carry their
packed levels with them: a linear that reads them keeps no more either (packing.py).

On a CPU these functions are bound by memory passes: masks are floats written in place, because comparing
into booleans and multiplying by them is several times slower there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.compiled import CompiledClip
from spikelm.neurons.kernels.packing import (
    Packed,
    chunks,
    get_levels,
    get_mask,
    lanes,
    new_levels,
    new_mask,
    put_levels,
    put_mask,
)
from spikelm.neurons.kernels.precision import wide


def clip_spikes(x: Tensor, alpha: Tensor, rule: ClipRule, compiled: bool = False) -> Tensor:
    """Spikes of x (T, ...) in its type, computed in single precision at least; packed where gradients may be asked.

    Compiled kernels are for amplitudes that do not learn: those that do need the membrane.
    """
    if compiled and not alpha.requires_grad and x.numel():
        spikes, levels = CompiledClip.apply(wide(x), alpha, rule)
    else:
        spikes, levels = ClipSpike.apply(wide(x), alpha, rule, torch.is_grad_enabled())
    spikes = spikes.to(x.dtype)
    if levels is not None and not torch.compiler.is_compiling():
        spikes.packed = Packed.ternary(levels, alpha, spikes.shape)
    return spikes


def _fire(q: Tensor, fired: Tensor, rule: ClipRule, mask: bool = True) -> None:
    """Write the fired level of q into `fired` and turn q into the mask [q inside the clip range], if it is needed."""
    torch.clamp(q, rule.low, 1.0, out=fired)
    if mask or rule.fire == "above":
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
    levels: Tensor | None = None,
    inside: Tensor | None = None,
    membranes: Tensor | None = None,
) -> None:
    """Write the spikes of x (T, ...) into `spikes`; `amplitude(t, m_t)` gives a_t.

    Packed `levels`, the mask `inside` and `membranes`, where given, are filled for the backward.
    """
    steps = x.shape[0]
    q = torch.empty_like(x[0])
    small = torch.empty_like(q, dtype=torch.int8)
    if rule.beta and steps > 1:
        share, potential, one = torch.empty_like(q), torch.empty_like(q), x.new_ones(())
    m = x[0]
    for t in range(steps):
        if membranes is not None:
            membranes[t] = m
        a = amplitude(t, m)
        fired = spikes[t]
        torch.div(m, a, out=q)
        _fire(q, fired, rule, mask=inside is not None)
        if inside is not None:
            put_mask(inside, t, small.copy_(q))
        if levels is not None:
            put_levels(levels, t, small.copy_(fired))
        remembers = bool(rule.beta) and t + 1 < steps
        if remembers:  # the share of the membrane that survives the reset
            torch.sub(one, fired.abs() if rule.symmetric else fired, out=share)
        fired.mul_(a)
        if remembers:
            m = torch.addcmul(x[t + 1], m, share.mul_(rule.gain(a)), out=potential)
        elif t + 1 < steps:
            m = x[t + 1]


class ClipSpike(torch.autograd.Function):
    """Clip-family spikes and, if asked to `keep` them, their packed levels.

    Gradient to x by the straight-through estimator, to alpha by LSQ if it learns.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, rule: ClipRule, keep: bool) -> tuple[Tensor, Tensor | None]:
        spikes = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        split = _split(x)
        backward = any(ctx.needs_input_grad)
        levels = new_levels(split) if keep else None
        inside = new_mask(split) if backward else None
        membranes = torch.empty_like(split) if ctx.needs_input_grad[1] else None
        for part in chunks(split):
            clip_run(
                split[..., part],
                rule,
                lambda t, m: alpha[t],
                _split(spikes)[..., part],
                None if levels is None else levels[:, part],
                None if inside is None else inside[:, part],
                None if membranes is None else membranes[..., part],
            )
        ctx.rule = rule
        if levels is not None:
            ctx.mark_non_differentiable(levels)
        carried = levels if backward and rule.beta and x.shape[0] > 1 else None
        ctx.save_for_backward(inside, carried, alpha, membranes)
        return spikes, levels

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, Tensor | None, None, None]:
        inside, levels, alpha, membranes = ctx.saved_tensors
        grad_x = torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)
        split, split_x = _split(grad), _split(grad_x)
        for part in chunks(split):
            _clip_gradient(
                split[..., part],
                split_x[..., part],
                inside[:, part],
                None if levels is None else levels[:, part],
                alpha,
                ctx.rule,
            )
        grad_alpha = None if membranes is None else _lsq_gradient(split, membranes, alpha, ctx.rule)
        return grad_x, grad_alpha, None, None


def _split(x: Tensor) -> Tensor:
    """x (T, ...) as (T, lanes, n)."""
    T = x.shape[0]
    values = x[0].numel()
    count = lanes(T, values)
    return x.reshape(T, count, values // count)


def _clip_gradient(
    grad: Tensor, grad_x: Tensor, inside: Tensor, levels: Tensor | None, alpha: Tensor, rule: ClipRule
) -> None:
    """Write dL/dx of a chunk into `grad_x`, from the last time step to the first."""
    factor = torch.empty_like(grad[0])
    small = torch.empty_like(factor, dtype=torch.int8)
    last = grad.shape[0] - 1
    for t in range(last, -1, -1):
        torch.mul(grad[t], factor.copy_(get_mask(inside, t, small)), out=grad_x[t])
        if levels is not None and t < last:
            digits = get_levels(levels, t, small)
            share = torch.sub(2, digits, out=small) if not rule.symmetric else digits.bitwise_and_(1)  # of 0, 1, 2
            grad_x[t].addcmul_(grad_x[t + 1], factor.copy_(share).mul_(rule.gain(alpha[t])))


def _lsq_gradient(grad: Tensor, m: Tensor, alpha: Tensor, rule: ClipRule) -> Tensor:
    """dL/da_t = sum g (round(q) - q inside, the clipped level outside) / sqrt(values per step)."""
    grad, m = grad.flatten(1), m.flatten(1)
    q = m / alpha[:, None]
    inside, fired = q.clone(), torch.empty_like(q)
    _fire(inside, fired, rule)
    slope = fired.addcmul_(q, inside, value=-1)
    return (grad * slope).sum(1) / math.sqrt(m[0].numel())
