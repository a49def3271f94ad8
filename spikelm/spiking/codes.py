"""Spikes {-a_t, 0, a_t} in two bits each: four to a byte along the last axis, beside one amplitude per time step."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

PER_BYTE = 4
_LEVELS = (0.0, 1.0, -1.0, 0.0)  # of the codes 0, 1, 2; 3 does not occur


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
    """Signs of x (..., d) as bytes (..., ceil(d / 4))."""
    codes = (x > 0).to(torch.uint8).add_((x < 0).to(torch.uint8), alpha=2)
    codes = F.pad(codes, (0, -x.shape[-1] % PER_BYTE)).unflatten(-1, (-1, PER_BYTE))
    return codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6


def unpack(packed: Tensor, amplitude: Tensor, width: int) -> Tensor:
    """Values (T, ..., width) of bytes (T, ..., ceil(width / 4)), by a table of the 256 bytes at each time step."""
    T = packed.shape[0]
    table = amplitude[:, None, None] * _levels(amplitude.dtype, packed.device)  # exact: the levels are 0 and +-1
    step = torch.arange(T, dtype=torch.int32, device=packed.device).mul_(256).view(T, *[1] * (packed.dim() - 1))
    values = F.embedding(packed.to(torch.int32) + step, table.flatten(0, 1)).flatten(-2)
    return values if values.shape[-1] == width else values[..., :width]


@lru_cache(maxsize=8)
def _levels(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(256, 4): the four levels that each byte holds."""
    byte = torch.arange(256, device=device)
    digits = torch.stack([byte >> shift & 3 for shift in (0, 2, 4, 6)], dim=-1)
    return torch.tensor(_LEVELS, dtype=dtype, device=device)[digits]
