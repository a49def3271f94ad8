"""An affine quantiser per token, with more bits on some channels, in one go: forward, and the gradient in closed form.

`affine` is what it computes, written for autograd, which keeps some ten arrays of floats for it. Here the backward
keeps the input and a few numbers a token; the linear behind keeps the codes in one byte each. With y = (q - z) a,
q = clamp(r + z, 0, 2^n - 1) and r = round(x / a):

    dL/dx = g [q = r + z] + D ([x = max] / #max - [x = min] / #min)
    D = sum over n of [a is not clamped] / (2^n - 1) sum over the channels of n of g (q - z - [q = r + z] x / a)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.neurons.kernels.packing import Packed
from spikelm.neurons.kernels.precision import wide

LEAST_SCALE, LARGEST = 1e-5, 1e4  # of scales; zero points are not larger either
PIECE = 1 << 18  # values worked on at a time on a CPU, so that scratch memory stays in cache


def affine(x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """(q, a, z) of each row of the last axis, which stand for (q - z) a.

    a = clamp((max - min) / (2^n - 1), 1e-5, 1e4); z = round(clamp(-min / a, -1e4, 1e4));
    q = clamp(round(x / a) + z, 0, 2^n - 1).
    The gradient passes the rounding of x / a, and q where it is not clamped; a keeps its own, through min and max.
    """
    scale, zero = _grid(x.amin(-1, keepdim=True), x.amax(-1, keepdim=True), bits)
    ratio = x / scale
    rounded = ratio.detach().round() + (ratio - ratio.detach())
    return (rounded + zero).clamp(0, 2**bits - 1), scale, zero


def affine_code(x: Tensor, bits: int, more: int = 0, channels: Tensor | None = None) -> Tensor:
    """(q - z) a of x (..., d) with `bits` bits, and with `more` on the channels of these indices, if there are any.

    Where gradients may be asked for it carries q, which a linear that reads it keeps in its place.
    """
    y, codes, grids = AffineCode.apply(x, bits, more, channels, torch.is_grad_enabled())
    if codes is not None:
        y.packed = Packed(codes, grids, partial(values_of, channels=channels))
    result: Tensor = y
    return result


def values_of(codes: Tensor, grids: Tensor, channels: Tensor | None) -> Tensor:
    """(q - z) a of what is kept of q; `grids` holds a and z of each token, then those with more bits."""
    values = codes.to(grids.dtype)
    rows, by_row = values.view(-1, values.shape[-1]), grids.view(-1, grids.shape[-1])
    some = None
    if channels is not None:
        some = rows.index_select(1, channels).sub_(by_row[:, 3:4]).mul_(by_row[:, 2:3])
    rows.sub_(by_row[:, 1:2]).mul_(by_row[:, 0:1])
    if channels is not None and some is not None:
        rows.index_copy_(1, channels, some)
    return values


def _grid(low: Tensor, high: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """a and z of tokens with this minimum and maximum."""
    scale = ((high - low) / (2**bits - 1)).clamp(LEAST_SCALE, LARGEST)
    return scale, (-low / scale).clamp(-LARGEST, LARGEST).round()


class AffineCode(torch.autograd.Function):
    """(q - z) a and, if asked to `keep` them, q and the tokens' a and z."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bits: int, more: int, channels: Tensor | None, keep: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        widths = (bits,) if channels is None else (bits, bits + more)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        dtype = torch.uint8 if max(widths) <= 8 else torch.int16
        codes = torch.empty(x.shape, dtype=dtype, device=x.device) if keep else None
        rows, written = x.reshape(-1, x.shape[-1]), y.view(-1, x.shape[-1])
        low, high = wide(rows.amin(-1, keepdim=True)), wide(rows.amax(-1, keepdim=True))
        grids = torch.cat([part for width in widths for part in _grid(low, high, width)], -1)
        for part in _pieces(rows):
            kept = None if codes is None else codes.view(rows.shape)[part]
            _encode(wide(rows[part]), grids[part], widths, channels, written[part], kept)
        ctx.widths = widths
        ctx.save_for_backward(x, low, high, grids, channels)
        if codes is None:
            return y, None, None
        tokens = grids.view(*x.shape[:-1], -1)
        ctx.mark_non_differentiable(codes, tokens)
        return y, codes, tokens

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, None, None, None, None]:
        x, low, high, grids, channels = ctx.saved_tensors
        grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        rows, given, written = (each.reshape(-1, x.shape[-1]) for each in (x, grad, grad_x))
        for part in _pieces(rows):
            values = wide(rows[part])
            ends = low[part], high[part]
            target = written[part] if written.dtype == values.dtype else torch.empty_like(values)
            _gradient(values, wide(given[part]), ends, grids[part], ctx.widths, channels, target)
            if written.dtype != values.dtype:
                written[part].copy_(target)
        return grad_x, None, None, None, None


def _encode(
    x: Tensor, grids: Tensor, widths: tuple[int, ...], channels: Tensor | None, y: Tensor, codes: Tensor | None
) -> None:
    """Write (q - z) a of rows x into y, and q into `codes`."""
    scale, zero, *finer = grids.split(1, -1)
    work = y if y.dtype == x.dtype else torch.empty_like(x)
    torch.div(x, scale, out=work).round_().add_(zero).clamp_(0, 2 ** widths[0] - 1)
    if codes is not None:
        codes.copy_(work)
    work.sub_(zero).mul_(scale)
    if channels is not None:
        some = x.index_select(1, channels).div_(finer[0]).round_().add_(finer[1]).clamp_(0, 2 ** widths[1] - 1)
        if codes is not None:
            codes.index_copy_(1, channels, some.to(codes.dtype))
        work.index_copy_(1, channels, some.sub_(finer[1]).mul_(finer[0]))
    if work is not y:
        y.copy_(work)


def _gradient(
    x: Tensor,
    grad: Tensor,
    ends: tuple[Tensor, Tensor],
    grids: Tensor,
    widths: tuple[int, ...],
    channels: Tensor | None,
    grad_x: Tensor,
) -> None:
    """Write dL/dx of rows x, whose minimum and maximum are `ends`."""
    scale, zero, *finer = grids.split(1, -1)
    slopes = _through(x, grad, scale, zero, widths[0], grad_x)
    low, high = ends
    if channels is None:
        share = _of_extent(slopes.sum(-1, keepdim=True), low, high, widths[0])
    else:
        slopes.index_fill_(1, channels, 0)
        picked = x.index_select(1, channels)
        some = torch.empty_like(picked)
        other = _through(picked, grad.index_select(1, channels), finer[0], finer[1], widths[1], some)
        grad_x.index_copy_(1, channels, some)
        share = _of_extent(slopes.sum(-1, keepdim=True), low, high, widths[0])
        share += _of_extent(other.sum(-1, keepdim=True), low, high, widths[1])
    at_end = slopes  # its memory
    for end, part in ((high, share), (low, -share)):
        torch.eq(x, end, out=at_end)
        grad_x.addcmul_(at_end, part / at_end.sum(-1, keepdim=True))


def _through(x: Tensor, grad: Tensor, scale: Tensor, zero: Tensor, bits: int, grad_x: Tensor) -> Tensor:
    """g (q - z - [q = r + z] x / a), whose sum is the gradient of a; all the rest, g [q = r + z], goes into grad_x."""
    ratio = x / scale
    rounded = ratio.round()
    level = torch.maximum(rounded, -zero)
    torch.minimum(level, 2**bits - 1 - zero, out=level)  # q - z
    inside = torch.eq(level, rounded, out=rounded)
    torch.mul(inside, grad, out=grad_x)
    return level.addcmul_(ratio, inside, value=-1).mul_(grad)


def _of_extent(slope: Tensor, low: Tensor, high: Tensor, bits: int) -> Tensor:
    """The gradient of max - min from a's: none where a is clamped."""
    scale = (high - low) / (2**bits - 1)
    return slope * ((scale >= LEAST_SCALE) & (scale <= LARGEST)) / (2**bits - 1)


def _pieces(rows: Tensor) -> Iterator[slice]:
    """Parts of rows (R, d) that stay in a processor's cache; all of them elsewhere."""
    size = max(1, PIECE // max(1, rows.shape[1])) if rows.is_cpu else max(1, len(rows))
    return (slice(start, start + size) for start in range(0, len(rows), size))
