"""Score against energy in one picture: ours beside the paper's, or a table of our own alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spikelm.report.appearance import Look, look_of, look_of_preset
from spikelm.report.figures.direct_labels import label_points
from spikelm.report.figures.figures import Drawing, PaperFigure, Runs
from spikelm.report.figures.style import GREY, LABEL_SIZE, PAPER, letters, marker_size, new_figure
from spikelm.report.query.selection import Results
from spikelm.report.tables.build import build_table
from spikelm.report.tables.cells import TableData
from spikelm.report.tables.paper_table import load_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDE_TO_THIN = "sDo8hpv^<>dPX*"  # markers in the order of drawing, so that a wide one does not hide a thin one


class Point(NamedTuple):
    """A row of the table that has both numbers; `spread` is the deviation of its score over several seeds."""

    energy: float
    score: float
    spread: float | None
    look: Look


class Axis(NamedTuple):
    """What an axis shows, and whether its lowest value is the best."""

    name: str
    lower: bool

    @property
    def label(self) -> str:
        return f"{self.name}, lower is better" if self.lower else self.name


class Names(NamedTuple):
    """The axes of a panel: energy is better where it is low, a score where its column of the table says so."""

    energy: Axis
    score: Axis


def score_against_energy(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """A score over logarithmic energy, two columns of a table: ours left, the paper's right, one range of scores.

    A table of our own has one panel, and where most systems crowd at its better end a second one that enlarges it.
    """
    number = figure.table or 3
    table = build_table(load_table(number), results)
    ours = points(table, figure, "ours")
    if not ours:
        return Drawing(remark="No system has all of its scores yet.")
    heading = figure.heading(results.selection)
    embedded = table.source == "embedded"
    names = _names(figure, table, "micro-world" if embedded else "GLUE")
    shown = {"ours": ours}
    if isinstance(number, int):
        shown["paper"] = points(table, figure, "paper")
        drawn, axes = new_figure(heading, 1, 2, 4.0, sharey=True)
        for panel, of_table in zip(axes, shown.values(), strict=True):
            _scatter(panel, of_table)
        letters(axes, ["ours", f"the paper's table {number}"])
        _name_axes(axes[0], names)
        _name_axes(axes[1], _names(figure, table, "GLUE"))
        for panel, of_table in zip(axes, shown.values(), strict=True):
            label_points(panel, _places(of_table))
    else:
        drawn = _alone(heading, ours, names)
    data = {whose: _places(of_table) for whose, of_table in shown.items()}
    stands_for = embedded and "{data}" in figure.score.name  # elsewhere it is another data set's score
    remark = "Micro-world scores are not GLUE's: compare the order of systems, not the numbers." if stands_for else ""
    return Drawing(drawn, data, remark)


def _names(figure: PaperFigure, table: TableData, data: str) -> Names:
    return Names(
        *(Axis(one.name.format(data=data), one.column in table.lowest) for one in (figure.energy, figure.score))
    )


def _alone(heading: str, ours: Mapping[str, Point], names: Names) -> Figure:
    """All systems of a table in one panel; those of a crowded better end have their names in a second one."""
    better = crowded(ours, names.score.lower)
    drawn, grid = new_figure(heading, 2 if better else 1, 1, 7.6 if better else 5.0, squeeze=False)
    first, *rest = (row[0] for row in grid)
    _scatter(first, ours)
    _name_axes(first, names)
    for panel in rest:
        _scatter(panel, better)
        _name_axes(panel, names)
        (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
        corners = [left, right, right, left, left], [low, low, high, high, low]
        first.plot(*corners, color=GREY, linewidth=0.8, linestyle="--", scalex=False, scaley=False)
        letters([first, panel], ["all systems", f"the {'lower' if names.score.lower else 'upper'} end, enlarged"])
        label_points(panel, _places(better))
    named = {name: point for name, point in ours.items() if name not in better}
    label_points(first, _places(named), list(_places(better).values()))
    return drawn


def crowded(points: Mapping[str, Point], lower: bool = False) -> dict[str, Point]:
    """The best systems, at least half of them, where the gap to the others is wider than their range; or none.

    `lower` says that low scores are the best ones.
    """
    heights = {name: -point.score if lower else point.score for name, point in points.items()}
    scores = sorted(heights.values(), reverse=True)
    ranges = {place: scores[0] - scores[place - 1] for place in range(len(scores) // 2 + 1, len(scores))}
    wide = {place: (scores[place - 1] - scores[place]) / span for place, span in ranges.items() if span > 0}
    cut = max(wide, key=lambda place: wide[place], default=0)
    if not cut or wide[cut] <= 1:
        return {}
    return {name: point for name, point in points.items() if heights[name] >= scores[cut - 1]}


def _name_axes(panel: Axes, names: Names) -> None:
    panel.set_xlabel(names.energy.label)
    panel.set_ylabel(names.score.label)
    panel.yaxis.set_tick_params(labelleft=True)
    arrow, height, side = ("↙", 0.01, "bottom") if names.score.lower else ("↖", 0.99, "top")
    panel.text(0.015, height, f"{arrow} better", transform=panel.transAxes, ha="left", va=side, color=GREY)


def _places(points: Mapping[str, Point]) -> dict[str, tuple[float, float]]:
    return {name: (point.energy, point.score) for name, point in points.items()}


def points(table: TableData, figure: PaperFigure, whose: str) -> dict[str, Point]:
    """Energy and score of every row that has both, by name and T."""
    points_of_rows = {}
    names = Counter(line.name for line in table.lines)
    for line in table.lines:
        cells = [line.cells[figure.energy.column], line.cells[figure.score.column]]
        values = [cell.mean if whose == "ours" else cell.paper for cell in cells]
        steps: object = line.cells["T"].paper
        if table.ours_only and names[line.name] > 1:  # no paper says T: it stands where names do not tell rows apart
            steps = line.cells["T"].ours_text
        if all(value is not None for value in values):
            name = f"{line.name.replace('_', ' ')}{'' if steps is None else f', T={steps}'}"
            look = look_of_preset(line.system) if line.system else look_of(line.name)
            spread = cells[1].deviation if whose == "ours" else None
            points_of_rows[name] = Point(float(values[0]), float(values[1]), spread, look)  # type: ignore[arg-type]
    return points_of_rows


def _scatter(panel: Axes, points: Mapping[str, Point]) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    for energy, score, spread, look in points.values():
        above = 2 + WIDE_TO_THIN.index(look.marker) / 100
        shown: dict[str, Any] = {"marker": look.marker, "markersize": 6.5 * marker_size(look.marker), "zorder": above}
        panel.errorbar(
            energy, score, spread, color=look.colour, linestyle="none", capsize=2, elinewidth=1,
            markeredgecolor=PAPER, markeredgewidth=0.7, **shown,
        )  # fmt: skip
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_tick_params(labelsize=LABEL_SIZE)
    panel.margins(x=0.15, y=0.1)
