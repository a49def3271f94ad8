"""Charts as data: what the browser draws with plotly, in colours that follow light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from spikelm.report.appearance import Look


@dataclass(frozen=True)
class ShownLook:
    """Colour and marker of a system, on light and dark pages."""

    light: str
    dark: str
    symbol: str  # as plotly names it


@dataclass(frozen=True)
class Line:
    """One curve with its name."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class CurveChart:
    """Curves over a common axis, of steps where nothing else is said."""

    name: str
    about: str
    lines: list[Line]
    axis: str = "step"


@dataclass(frozen=True)
class Point:
    """One mark of a scatter: where it is, what it is called and where it leads."""

    x: float
    y: float
    system: str
    label: str
    about: str  # what hovering adds: the run, or how many
    href: str
    look: ShownLook


@dataclass(frozen=True)
class ScatterChart:
    """Score against energy of several systems."""

    name: str
    title: str
    where: str
    x_title: str
    y_title: str
    points: list[Point]
    headline: str  # what it says, in a sentence


def shown_look(look: Look) -> ShownLook:
    """How a system is drawn, here as in the figures."""
    return ShownLook(look.colour, look.dark_colour, look.symbol)


def plotly_name() -> str:
    """The file of the library beside the pages; another version has another name, so it may be kept for ever."""
    return f"plotly-{version('plotly')}.min.js"


def copy_plotly(folder: Path) -> None:
    """Put the library of the installed package beside the pages: they work without a network."""
    import plotly

    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    temporary = folder / f".{plotly_name()}.tmp"
    shutil.copyfile(script, temporary)
    temporary.replace(folder / plotly_name())
