"""Numbers as the page writes them; nothing where there is none."""

from __future__ import annotations

from spikelm.catalog.quantities import duration, significant
from spikelm.report.page.better import Better


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals; empty for none."""
    return "" if value is None else f"{value:.{digits}f}".replace("-", "−")


def score_text(value: float | None, direction: Better) -> str:
    """A score with two decimals; a loss, which may be far below one, with three digits that count."""
    return fixed(value) if value is None or direction != "lower" else significant(value)


def energy_text(value: float | None) -> str:
    """An energy without its unit, as its column says it."""
    return "" if value is None else significant(value)


def percent(value: float | None) -> str:
    """A share of one, in percent."""
    return "" if value is None else f"{100 * value:.1f}"


def count(value: float | None) -> str:
    """A whole number with separators."""
    return "" if value is None else f"{value:,.0f}"


def seconds_text(value: float | None) -> str:
    """How long something took, with its unit."""
    return "" if value is None else duration(value)


def when(value: str) -> str:
    """2026-11-16T10:12:24+00:00 as 2026-11-16 10:12."""
    return value[:16].replace("T", " ")


def rounded(value: float) -> float:
    """Six significant digits: more than a screen can show, and half the bytes."""
    return float(f"{value:.6g}")
