"""Ways to write a whole number as spikes: its bits, as many spikes as it says, or balanced ternary digits."""

from __future__ import annotations

import torch
from torch import Tensor


def bitwise(n: Tensor, steps: int | None = None) -> Tensor:
    """The bits of |n| with the sign of n, (V, *shape), the most significant first; without `steps` as many as needed.

    n = sum_v 2^(V-1-v) b_v.
    """
    places = place_values(n[None], max(1, largest(n).bit_length()) if steps is None else steps)
    return (n.abs() / places).floor_().remainder_(2).mul_(n.sign())


def bits(n: Tensor, steps: int | None = None) -> Tensor:
    """The same with each bit's place value: the steps add up to n."""
    written = bitwise(n, steps)
    return written.mul_(place_values(written))


def ternary(n: Tensor, steps: int | None = None, first: int = 0) -> Tensor:
    """b_t = sign(n) [|n| > t], (V, *shape); n is the sum of them. Without `steps`, max|n| of them."""
    return (n.abs() > _thresholds(n, steps, first)) * n.sign()


def binary(n: Tensor, steps: int | None = None, first: int = 0) -> Tensor:
    """b_t = [n > t] of counts n >= 0, (V, *shape); n is the sum of them. Without `steps`, max n of them."""
    return (n > _thresholds(n, steps, first)).to(n.dtype)


def balanced_ternary(n: Tensor, steps: int) -> Tensor:
    """Digits -1, 0, 1 times 3^(V-1), ..., 3, 1, (V, *shape), which add up to n where |n| <= (3^V - 1) / 2."""
    written = []
    for v in reversed(range(steps)):
        place = 3.0**v
        digit = (n / place).round_().mul_(place)  # never a tie: 3^v is odd
        written.append(digit)
        n = n - digit
    return torch.stack(written)


def place_values(spikes: Tensor, steps: int | None = None) -> Tensor:
    """2^(V-1), ..., 2, 1 for the V steps of `spikes` (V, *shape), or for as many as said, (V, 1, ..., 1)."""
    powers = [2.0**bit for bit in reversed(range(spikes.shape[0] if steps is None else steps))]
    return torch.tensor(powers, dtype=spikes.dtype, device=spikes.device).view(-1, *[1] * (spikes.dim() - 1))


def largest(n: Tensor) -> int:
    """max|n|, 0 of no counts at all."""
    return int(n.abs().max()) if n.numel() else 0


def _thresholds(n: Tensor, steps: int | None, first: int) -> Tensor:
    """0, ..., V - 1, (V, 1, ..., 1), or V of them from `first` on."""
    many = max(1, largest(n)) if steps is None else steps
    return torch.arange(first, first + many, dtype=n.dtype, device=n.device).view(-1, *[1] * n.dim())
