"""Score against energy: what the paper's tables 3 and 7 say in one picture, ours beside its."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spikelm.report.build import build_table
from spikelm.report.cells import TableData
from spikelm.report.figures import PaperFigure, Series
from spikelm.report.selection import Found, Results
from spikelm.report.style import GREY, letters, look, new_figure
from spikelm.report.tables import load_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAMILIES = (("BERT", 4), ("SpikeLM", 0), ("LIF", 1), ("SpikingFormer", 2), ("SpikeBERT", 3))


def score_against_energy(
    figure: PaperFigure, runs: dict[Series, Found], results: Results
) -> tuple[Figure | None, dict[str, Any], str]:
    """Average score over energy of one inference, logarithmic: ours left, the paper's right."""
    table = build_table(load_table(figure.table or 3), results)
    ours, paper = points(table, "ours"), points(table, "paper")
    if not ours:
        return None, {}, "No system has all of its scores yet."
    made, axes = new_figure(1, 2, 3.1)
    for panel, found in zip(axes, (ours, paper), strict=True):
        _scatter(panel, found)
    letters(axes, [f"ours, scale {table.scale}, source {table.source}", "the paper's table 3"])
    axes[0].set_ylabel("average of nine GLUE scores")
    return made, {"ours": ours, "paper": paper}, ""


def points(table: TableData, whose: str) -> dict[str, tuple[float, float]]:
    """Energy and average of every row that has both."""
    found = {}
    for line in table.lines:
        cells = [line.cells["energy_fp32"], line.cells["avg"]]
        values = [cell.mean if whose == "ours" else cell.paper for cell in cells]
        steps = line.cells["T"].paper
        if all(value is not None for value in values):
            name = f"{line.name.replace('_', ' ')}{'' if steps is None else f' T={steps}'}"
            found[name] = (float(values[0]), float(values[1]))  # type: ignore[arg-type]
    return found


def _scatter(panel: Axes, found: dict[str, tuple[float, float]]) -> None:
    panel.set_xscale("log")
    low, high = min(y for _, y in found.values()), max(y for _, y in found.values())
    for name, (energy, score) in found.items():
        shown = look(_family(name), line=False)
        panel.plot(energy, score, linestyle="none", **{**shown, "markersize": 6})
    lifted = spread({name: y for name, (_, y) in found.items()}, 0.055 * max(high - low, 1.0))
    middle = sorted(x for x, _ in found.values())[len(found) // 2]
    for name, (energy, score) in found.items():
        left = energy > middle
        panel.annotate(
            name,
            (energy, score),
            xytext=(energy * (0.88 if left else 1.14), lifted[name]),
            ha="right" if left else "left",
            va="center",
            fontsize=7.5,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.4}
            if abs(lifted[name] - score) > 0.5
            else None,
        )
    panel.set_xlabel("energy of one inference, mJ (fp32)")
    panel.margins(x=0.25, y=0.12)


def _family(name: str) -> int:
    return next((place for start, place in FAMILIES if name.startswith(start)), 6)


def spread(heights: dict[str, float], gap: float) -> dict[str, float]:
    """Heights of labels at least `gap` apart, in the order of the points."""
    placed: dict[str, float] = {}
    for name in sorted(heights, key=lambda one: heights[one]):
        above = max(placed.values(), default=float("-inf")) + gap
        placed[name] = max(heights[name], above)
    return placed
