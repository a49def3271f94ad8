"""One look for all figures: small, readable in print and in grey, and for the colour-blind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: colours that stay apart for the colour-blind (Okabe and Ito), each with a line and a marker of its own
LOOKS = (
    {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    {"color": "#009E73", "linestyle": "-.", "marker": "^"},
    {"color": "#CC79A7", "linestyle": ":", "marker": "D"},
    {"color": "#000000", "linestyle": "-", "marker": "v"},
    {"color": "#E69F00", "linestyle": "--", "marker": "P"},
    {"color": "#56B4E9", "linestyle": "-.", "marker": "X"},
)
GREY = "#777777"
WIDTH = 6.8  # inches: a page of text
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
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


def new_figure(rows: int = 1, columns: int = 1, height: float = 2.8, **kwargs: Any) -> tuple[Figure, Any]:
    """A figure as wide as a page; axes as plt.subplots gives them. Draw inside `with styled()`."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height), layout="constrained", **kwargs)
    return figure, axes


def not_run(axes: Axes) -> None:
    """An empty panel that says why."""
    axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.grid(visible=False)
    axes.set_xticks([])


def look(position: int, line: bool = True) -> dict[str, Any]:
    """Colour, line and marker of the n-th series."""
    shown = dict(LOOKS[position % len(LOOKS)])
    if not line:
        shown.pop("linestyle")
    return shown


def percent(axes: Axes, top: float | None = None) -> None:
    """A y-axis of shares, from 0."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(0, top)


def letters(axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """(a), (b), ... before the titles of panels."""
    for place, (panel, title) in enumerate(zip(axes, titles, strict=True)):
        panel.set_title(f"({'abcdefgh'[place]}) {title}", loc="left")
