"""The precision of membranes."""

from __future__ import annotations

from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """x in at least single precision: membranes are never kept in half precision."""
    return x.float() if x.dtype.itemsize < 4 else x
