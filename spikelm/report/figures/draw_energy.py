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


WIDE_TO_THIN = "sDo8hpv^<>dPX*"  # markers in the order of drawing, so that a wide one does not hide a thin one


ALONE = 5.6  # inches: the height of one panel, which has more points than two have


class Point(NamedTuple):
    """A row of the table that has both numbers; `spread` is the deviation of its score over several seeds."""

    energy: float
    score: float
    spread: float | None
    look: Look


def score_against_energy(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Average score over energy of one inference, logarithmic: ours left, the paper's right, one range of scores."""
    number = figure.table or 3
    table = build_table(load_table(number), results)
    shown = {"ours": points(table, "ours")}
    if not shown["ours"]:
        return Drawing(remark="No system has all of its scores yet.")
    if isinstance(number, int):
        shown["paper"] = points(table, "paper")
    height = 4.0 if len(shown) > 1 else ALONE
    heading = figure.heading(results.selection)
    drawn, grid = new_figure(heading, 1, len(shown), height, sharey=True, squeeze=False)
    axes = list(grid[0])
    embedded = table.source == "embedded"
    for panel, (whose, of_table) in zip(axes, shown.items(), strict=True):
        _scatter(panel, of_table)
        panel.set_xlabel("mJ of one inference (fp32), lower is better")
        panel.set_ylabel(f"average of nine {'micro-world' if embedded and whose == 'ours' else 'GLUE'} scores")
        panel.yaxis.set_tick_params(labelleft=True)
        panel.text(0.015, 0.99, "↖ better", transform=panel.transAxes, ha="left", va="top", color=GREY)
    if len(axes) > 1:
        letters(axes, ["ours", f"the paper's table {number}"])
    for panel, of_table in zip(axes, shown.values(), strict=True):
        label_points(panel, {name: (point.energy, point.score) for name, point in of_table.items()})
    data = {whose: {name: (one.energy, one.score) for name, one in of.items()} for whose, of in shown.items()}
    remark = "Micro-world scores are not GLUE's: compare the order of systems, not the numbers." if embedded else ""
    return Drawing(drawn, data, remark)


def points(table: TableData, whose: str) -> dict[str, Point]:
    """Energy and average of every row that has both, by name and T."""
    points_of_rows = {}
    names = Counter(line.name for line in table.lines)
    for line in table.lines:
        cells = [line.cells["energy_fp32"], line.cells["avg"]]
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
            energy, score, spread, color=look.colour, linestyle="none", capsize=2,
            markeredgecolor=PAPER, markeredgewidth=0.7, **shown,
        )  # fmt: skip
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_tick_params(labelsize=LABEL_SIZE)
    panel.margins(x=0.15, y=0.1)
