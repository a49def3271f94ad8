"""Two results of the same computation, and how far apart they may be.

The reference is always the CPU in double precision. Values are compared one by one: two of them are apart when they
differ by more than a share of the largest one. Rounding moves a membrane by some 1e-6 of its value, and where a
threshold lies in between, a spike comes or goes: such flips cannot be avoided, so a small share of the values may be
apart. docs/guide/doctor.md says how the limits were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

#: Two values are apart when they differ by more than this share of the largest: far above rounding, below a level of 8
#: bits (1/255), which is the smallest step that a spike or a quantised weight can make.
APART = {torch.float32: 1e-3, torch.bfloat16: 2.0**-8}
#: The share of values that may be apart: rounding of 1e-6 at thresholds where a density below 1 lies, times ten.
FLIPS = 1e-5
#: Of gradients that are sums over all values, in the norm.
SUMS = {torch.float32: 1e-3, torch.bfloat16: 2e-2}

State = Literal["ok", "problem", "skipped"]


@dataclass(frozen=True)
class Measured:
    """A number and the most that it may be; without a limit it is only reported."""

    name: str
    value: float
    limit: float | None = None

    @property
    def within(self) -> bool:
        return math.isfinite(self.value) and (self.limit is None or self.value <= self.limit)


@dataclass(frozen=True)
class Check:
    """One comparison: what was compared, its numbers, and what came of it."""

    part: str
    name: str
    state: State
    measured: tuple[Measured, ...] = ()
    note: str = ""


class NotHereError(Exception):
    """This machine does not have what a check needs; the message says what."""


def checked(part: str, name: str, compare: Callable[[], Sequence[Measured]]) -> Check:
    """The comparison as a record; one that fails on the device is a problem, not the end of the others."""
    try:
        measured = tuple(compare())
    except NotHereError as reason:
        return Check(part, name, "skipped", note=str(reason))
    except Exception as error:  # a wrong device, an unknown kernel, no memory: whatever a new device raises
        return failed(part, name, error)
    return Check(part, name, "ok" if all(item.within for item in measured) else "problem", measured)


def failed(part: str, name: str, error: Exception) -> Check:
    """A comparison that ended with an error."""
    said = str(error).strip().partition("\n")[0]
    return Check(part, name, "problem", note=f"{type(error).__name__}: {said}")


def apart(values: Tensor, reference: Tensor, share: float) -> Tensor:
    """Where values and reference differ by more than a share of the largest reference; what is no number differs."""
    values, reference = values.detach().double().cpu(), reference.detach().double().cpu()
    return ~((values - reference).abs() <= share * reference.abs().max())


def share_of(mask: Tensor) -> float:
    """The share of a mask that is true."""
    return float(mask.double().mean())


def relative(values: Tensor, reference: Tensor) -> float:
    """The norm of the difference over the norm of the reference."""
    values, reference = values.detach().double().cpu(), reference.detach().double().cpu()
    norm = float(reference.norm())
    difference = float((values - reference).norm())
    return difference / norm if norm else difference


def firing_rate(spikes: Tensor) -> float:
    """The share of values that are not zero."""
    return share_of(spikes.detach() != 0)
