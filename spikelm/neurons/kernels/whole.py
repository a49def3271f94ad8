"""Whole numbers on a step, y = n S: what every code that unfolds inside a layer computes, in one go.

    n = clamp(round(x / S), low, high)      y = n S      dL/dx = g [x is in range]

For the backward n is kept in one byte (two or four where there are more levels), and a value that is out of range keeps
one more than the bound: so the same bytes are the mask, and what the weight's gradient of the linear behind reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.packing import CHUNK, Packed


@dataclass(frozen=True)
class WholeRule:
    """Which whole numbers there are, what becomes of a half, and where the gradient passes."""

    low: int
    high: int
    half: Literal["even", "up", "down"] = "even"  # up: floor(q + 1/2); down: towards zero
    passes: Literal["range", "rounded", "everywhere"] = "range"  # low <= q <= high, low <= round(q) <= high, always

    @property
    def largest(self) -> int:
        """The largest magnitude."""
        return max(self.high, -self.low)

    @property
    def dtype(self) -> torch.dtype:
        """The smallest type that holds them, and one more at each end."""
        return torch.int8 if self.largest < 127 else torch.int16 if self.largest < 32767 else torch.int32

    def rounded(self, q: Tensor) -> Tensor:
        """The nearest whole number of q, in place, whether there is such a level or not."""
        if self.half == "even":
            return q.round_()
        if self.half == "up":
            return q.add_(0.5).floor_()
        return q.copy_(q.abs().add_(0.5).ceil_().sub_(1).copysign_(q))


def whole_code(x: Tensor, step: Tensor, rule: WholeRule, keep: bool = True) -> Tensor:
    """n S of x (T, ..., d); S is (T, 1, ..., 1), or (T, ..., 1) where tokens have their own.

    Where gradients may be asked for it carries n (unless told not to `keep` it), which a linear that reads it keeps in
    its place. A gradient of S is LSQ's, and for one S per time step.
    """
    keep = keep and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    y, codes = WholeCode.apply(x, step, rule, keep)
    if codes is not None:
        y.packed = Packed(codes, step, partial(values_of, rule=rule))
    result: Tensor = y
    return result


def values_of(codes: Tensor, step: Tensor, rule: WholeRule) -> Tensor:
    """n S of what is kept of n."""
    return codes.to(step.dtype).clamp_(rule.low, rule.high).mul_(step)


def numbers(x: Tensor, step: Tensor, rule: WholeRule) -> Tensor:
    """n of x, as floats."""
    return rule.rounded(x / step).clamp_(rule.low, rule.high)


def _run(x: Tensor, step: Tensor, rule: WholeRule, y: Tensor, codes: Tensor | None) -> None:
    """Write n S into y and what is kept of n into `codes`."""
    torch.div(x, step, out=y)
    if rule.passes == "range" and codes is not None:
        cut = y.clamp(rule.low, rule.high)
        outside = y.sub_(cut).sign_()  # 1 above the range, -1 below it
        rule.rounded(cut)
        codes.copy_(outside.add_(cut))
        torch.mul(cut, step, out=y)
        return
    rule.rounded(y)
    if codes is not None:
        codes.copy_(y.clamp_(rule.low - 1, rule.high + 1))
    y.clamp_(rule.low, rule.high).mul_(step)


class WholeCode(torch.autograd.Function):
    """n S and, if asked to `keep` it, n; the gradient of S is sum g (n - q in range, n outside) / sqrt(N high)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, rule: WholeRule, keep: bool) -> tuple[Tensor, Tensor | None]:
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        masked = ctx.needs_input_grad[0] and rule.passes != "everywhere"
        codes = torch.empty(x.shape, dtype=rule.dtype, device=x.device) if keep or masked else None
        for part in _pieces(x):
            _run(x[part], _of(step, part), rule, y[part], None if codes is None else codes[part])
        ctx.rule = rule
        learns = ctx.needs_input_grad[1]
        ctx.save_for_backward(codes if masked or learns else None, step, x if learns else None)
        if not keep:
            return y, None
        ctx.mark_non_differentiable(codes)
        return y, codes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, Tensor | None, None, None]:
        codes, step, x = ctx.saved_tensors
        rule: WholeRule = ctx.rule
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad if rule.passes == "everywhere" else _masked(grad, codes, rule)
        grad_step = None
        if x is not None:
            q = x / step
            level = numbers(x, step, rule)
            inside = _masked(q, codes, rule) if rule.passes != "everywhere" else q
            slope = level.sub_(inside)
            grad_step = (grad * slope).flatten(1).sum(1).view_as(step) / math.sqrt(x[0].numel() * rule.high)
        return grad_x, grad_step, None, None


def _masked(grad: Tensor, codes: Tensor, rule: WholeRule) -> Tensor:
    """The gradient where n is a level; the mask is a float, which on a CPU is quicker than a boolean."""
    result = torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)
    for part in _pieces(grad):
        number = codes[part].to(grad.dtype)
        torch.eq(number.clamp(rule.low, rule.high), number, out=number)
        torch.mul(grad[part], number, out=result[part])
    return result


def _pieces(x: Tensor) -> Iterator[Any]:
    """Parts of x (T, B, ...) that stay in a processor's cache; all of it elsewhere."""
    if not x.is_cpu or x.dim() < 2 or x.numel() <= CHUNK or torch.compiler.is_compiling():
        yield ...
        return
    rows = max(1, CHUNK // max(1, x[0, 0].numel() * x.shape[0]))
    for start in range(0, x.shape[1], rows):
        yield slice(None), slice(start, start + rows)


def _of(step: Tensor, part: Any) -> Tensor:
    """The steps of a part."""
    return step if part is ... or step.shape[1] == 1 else step[part]
