"""Numbers as the page writes them; nothing where there is none."""

from __future__ import annotations


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals; empty for none."""
    return "" if value is None else f"{value:.{digits}f}".replace("-", "−")


def energy_text(value: float | None) -> str:
    """An energy: two decimals from 1 on, else three significant digits; never rounded to nothing."""
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:#.3g}" if abs(value) >= 1e-4 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """A share of one, in percent."""
    return "" if value is None else f"{100 * value:.1f}"


def count(value: float | None) -> str:
    """A whole number with separators."""
    return "" if value is None else f"{value:,.0f}"


def seconds_text(value: float | None) -> str:
    """How long something took: 45 s, 3 min 20 s, 2 h 5 min."""
    if value is None:
        return ""
    whole = round(value)
    if whole < 1:
        return f"{value:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def when(value: str) -> str:
    """2026-11-16T10:12:24+00:00 as 2026-11-16 10:12."""
    return value[:16].replace("T", " ")


def significant(value: float) -> float:
    """Six significant digits: more than a screen can show, and half the bytes."""
    return float(f"{value:.6g}")
