"""Spikes and masks in few bits: what a backward keeps instead of floats.

The rows of an (R, n) array share bytes: the level f of row r, in {-1, 0, 1}, is the digit f + 1 at bit 2 (r mod 4) of
byte r // 4; a mask is bit r mod 8 of byte r // 8. Byte operations on whole rows are the cheapest packing on a CPU, and
one that a compiler can fuse. So that few time steps fill their bytes too, x (T, N) is seen as (T, L, N / L): L lanes,
which are rows like the time steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

#: values per time step worked on at a time on a CPU, so that scratch memory stays in cache
CHUNK = 1 << 19
ROWS = 8  # that fill a byte of mask
SILENT = 0b01010101  # four digits of level 0
_BIT = (1, 2, 4, 8, 16, 32, 64, -128)  # as signed bytes


def lanes(T: int, values: int, rows: int = 4) -> int:
    """How many lanes each time step's values are split into, to fill a byte of levels with `rows`."""
    count = rows // T if rows >= T and rows % T == 0 else 1
    return count if values % count == 0 else 1


def chunks(x: Tensor) -> Iterator[slice]:
    """Slices of the last axis of x (..., L, n): cache-sized on a CPU, all of it elsewhere."""
    size = max(1, CHUNK // x.shape[-2] if x.is_cpu else x.shape[-1])
    return (slice(start, start + size) for start in range(0, x.shape[-1], size))


def new_levels(like: Tensor) -> Tensor:
    """Bytes for the levels of an array (T, L, n), all silent."""
    rows = like.shape[0] * like.shape[1]
    return torch.full((-(-rows // 4), like.shape[2]), SILENT, dtype=torch.int8, device=like.device)


def new_mask(like: Tensor) -> Tensor:
    """Bytes for a mask of an array (T, L, n), all false."""
    rows = like.shape[0] * like.shape[1]
    return torch.zeros((-(-rows // ROWS), like.shape[2]), dtype=torch.int8, device=like.device)


def put_levels(packed: Tensor, t: int, levels: Tensor) -> None:
    """Write the levels (L, n) of time step t, as int8, into bytes that were silent."""
    for row, level in enumerate(levels, t * len(levels)):
        packed[row // 4].add_(level, alpha=4 ** (row % 4))


def get_levels(packed: Tensor, t: int, digits: Tensor) -> Tensor:
    """Read the digits f + 1 of time step t into `digits` (L, n), int8."""
    for row, digit in enumerate(digits, t * len(digits)):
        torch.bitwise_right_shift(packed[row // 4], 2 * (row % 4), out=digit)
    return digits.bitwise_and_(3)


def put_mask(packed: Tensor, t: int, mask: Tensor) -> None:
    """Write the mask (L, n) of time step t, zeros and ones as int8, into bytes that were false."""
    for row, bit in enumerate(mask, t * len(mask)):
        packed[row // ROWS].add_(bit, alpha=_BIT[row % ROWS])


def get_mask(packed: Tensor, t: int, mask: Tensor) -> Tensor:
    """Read the mask of time step t into `mask` (L, n), int8."""
    for row, bit in enumerate(mask, t * len(mask)):
        torch.bitwise_right_shift(packed[row // ROWS], row % ROWS, out=bit)
    return mask.bitwise_and_(1)


def pack_noise(kept: Tensor) -> Tensor:
    """A dropout mask of zeros and ones (int8, any shape) in bits."""
    split = kept.view(1, lanes(1, kept.numel(), ROWS), -1)
    packed = new_mask(split)
    put_mask(packed, 0, split[0])
    return packed


def times_noise(x: Tensor, packed: Tensor, level: Tensor, out: Tensor | None = None) -> Tensor:
    """x times its mask as floats {0, level}, which are in cache only; `out` may be x, and is contiguous."""
    product = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    shape = lanes(1, x.numel(), ROWS), -1
    values, written = x.reshape(shape), product.view(shape)
    for part in chunks(values):
        block = written[:, part]
        noise = torch.empty_like(block).copy_(get_mask(packed[:, part], 0, torch.empty_like(block, dtype=torch.int8)))
        torch.mul(noise.mul_(level), values[:, part], out=block)
    return product


Floats = Callable[[Tensor, Tensor], Tensor]  # of what is kept and the heights: the spikes as they were


class Shared:
    """The floats of packed spikes, made once for all the products of a backward that read them."""

    def __init__(self, floats: Floats) -> None:
        self.floats = floats
        self.readers = 0
        self._left = 0
        self._floats: Tensor | None = None

    def read(self, levels: Tensor, alpha: Tensor, dtype: torch.dtype) -> Tensor:
        """The spikes; after the last reader nothing is kept."""
        floats = self._floats
        if floats is None or floats.dtype != dtype:
            floats, self._left = self.floats(levels, alpha).to(dtype), self.readers
        self._left -= 1
        self._floats = floats if self._left > 0 else None
        return floats


class Packed:
    """What spikes (T, ...) are made of, carried by the tensor itself as its attribute `packed`."""

    def __init__(self, levels: Tensor, alpha: Tensor, floats: Floats) -> None:
        self.levels = levels
        self.alpha = alpha.detach()
        self.floats = floats
        self.shared = Shared(floats)

    @classmethod
    def ternary(cls, levels: Tensor, alpha: Tensor, shape: torch.Size) -> Packed:
        """Of spikes -a_t, 0 and a_t, two bits each."""
        return cls(levels, alpha, partial(unpack, shape=shape))


def packed_of(x: Tensor) -> Packed | None:
    """The packed form of spikes or of a view of them; None for any other tensor."""
    packed: Any = getattr(x, "packed", None)
    if packed is None and x._base is not None:
        packed = getattr(x._base, "packed", None)
    return packed


def unpack(levels: Tensor, alpha: Tensor, shape: torch.Size) -> Tensor:
    """Spikes a_t f of shape (T, ...)."""
    T = shape[0]
    spikes = torch.empty(shape, dtype=alpha.dtype, device=levels.device)
    split = spikes.view(T, lanes(T, spikes[0].numel()), -1)
    for part in chunks(split):
        digits = torch.empty_like(split[0, :, part], dtype=torch.int8)
        for t in range(T):
            split[t, :, part].copy_(get_levels(levels[:, part], t, digits).sub_(1)).mul_(alpha[t])
    return spikes
