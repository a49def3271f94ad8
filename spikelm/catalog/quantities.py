"""Quantities as people read them: significant digits and a unit, and never a zero for what is not zero."""

from __future__ import annotations

import math
from collections.abc import Mapping

TINY = -6  # the power of ten below which zeros after the point are no longer counted by eye
MINUTES, HOURS = 100, 5400  # seconds from which a time is told in minutes, in hours


def significant(value: float, digits: int = 3) -> str:
    """As many digits as count, in plain notation: 0.000298, 51.4, 1,234; tiny numbers as 2.98e-07."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    power = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))  # of the rounded number: 9.999 is 10.0
    if power < TINY:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - power)}f}"


def millijoules(value: float) -> str:
    """An energy, with as many digits as the paper prints of BERT_base's."""
    return f"{significant(value, 4)} mJ"


def token_energy(value: float) -> str:
    """An energy of so many mJ in the unit that leaves digits to read: 0.1263 mJ, 4.122 nJ."""
    for least, in_mj, unit in ((1e-3, 1.0, "mJ"), (1e-4, 1e-3, "µJ"), (1e-9, 1e-6, "nJ")):
        if value >= least or not value:
            return f"{significant(value / in_mj, 4)} {unit}"
    return f"{significant(value * 1e9, 4)} pJ"


def duration(seconds: float) -> str:
    """A time in the unit that a person would choose: 0.42 s, 12 s, 2.5 min, 3.4 h, 1,234 h."""
    if seconds < MINUTES:
        return f"{significant(seconds, 2)} s"
    if seconds < HOURS:
        return f"{significant(seconds / 60, 2)} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"


def gigabytes(value: float) -> str:
    """Memory or disk of so many GB, in the unit that leaves digits to read: 1.7 MB, 23.4 GB, 1.20 TB."""
    if value >= 1000:
        return f"{value / 1000:.2f} TB"
    if value >= 1:
        return f"{f'{value:.1f}'.removesuffix('.0')} GB"
    return f"{significant(value * 1e3, 2)} MB" if value >= 1e-3 else f"{significant(value * 1e6, 2)} kB"


def rows_text(rows: Mapping[str, int], available: Mapping[str, int]) -> str:
    """Rows of each split, and of how many where some were left out: train 96 of 200, validation 48."""
    parts = (f"{split} {rows[split]:,}" + (f" of {available[split]:,}" if split in available else "") for split in rows)
    return ", ".join(parts)


def counted(number: int, word: str) -> str:
    """A number of things: 1 run, 1,234 runs."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def rate_text(rate: float, unfolds: bool = False) -> str:
    """How often neurons fire: a share of the values, or the spikes a value where each may take several."""
    return f"{rate:.2f} a value" if unfolds else f"{rate:.1%}"


def bits_text(bits: int | float | str) -> str:
    """Bits of weights or activations, three levels in a whole word: ternary, 2 x ternary."""
    return f"{bits:g}" if isinstance(bits, float) else str(bits).replace("ter", "ternary")
