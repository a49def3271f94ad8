"""One look for all figures: small, readable in print and in grey, for the colour-blind, and on a dark page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spikelm.report.appearance import dark_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: not quite black, which matplotlib leaves out of an SVG, so that there would be nothing to make light
INK, PAPER, GREY, PALE = "#1b1f24", "#ffffff", "#6e6e6e", "#b0b0b0"
#: what is not the colour of a system, on a dark page
DARK = {INK: "#e4e8ec", PAPER: "#14171b", GREY: "#a8b0b8", PALE: "#6b7580"}
WIDTH = 6.8  # inches: a page of text
#: paper behind text, which keeps it apart from what it lies on and leaves it text in a PDF
BACKED = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.4}
LINE = 88  # letters of a heading across it
LABEL_SIZE = 7.0  # points: the smallest text that is read at this width
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "figure.titlesize": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "spikelm",
    "pdf.fonttype": 42,
    "hatch.linewidth": 0.6,
}


@contextmanager
def styled() -> Iterator[None]:
    """The look, for all that is drawn or saved inside the `with`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(_SETTINGS):
        yield


def new_figure(heading: str, rows: int = 1, columns: int = 1, height: float = 2.8, **kwargs: Any) -> tuple[Figure, Any]:
    """A figure as wide as a page under its heading; axes as plt.subplots gives them. Draw inside `with styled()`."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height), layout="constrained", **kwargs)
    lines = [part for line in heading.splitlines() for part in textwrap.wrap(line, LINE)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", color=GREY)
    return figure, axes


def dark(svg: str) -> str:
    """The same drawing for a dark page: each colour becomes its dark one."""
    pairs = {**DARK, **{light.lower(): shown.lower() for light, shown in dark_colours().items()}}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: pairs.get(found[0], found[0]), svg)


def marker_size(marker: str) -> float:
    """Its size that looks as large as a circle of size 1."""
    return {"*": 1.55, "d": 1.3, "D": 0.95, "s": 1.1}.get(marker, 1.1)


def not_run(axes: Axes) -> None:
    """An empty panel that says why."""
    axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.grid(visible=False)
    axes.set_xticks([])


def percent(axes: Axes, top: float | None = None) -> None:
    """A y-axis of shares, from 0."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(0, top)


def letters(axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """(a), (b), ... before the titles of panels."""
    for place, (panel, title) in enumerate(zip(axes, titles, strict=True)):
        panel.set_title(f"({'abcdefgh'[place]}) {title}", loc="left")
