"""Score against energy: what the paper's tables 3 and 7 say in one picture, ours beside its."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spikelm.report.figures.figures import Drawing, PaperFigure, Runs
from spikelm.report.figures.style import letters, new_figure
from spikelm.report.query.selection import Results
from spikelm.report.tables.build import build_table
from spikelm.report.tables.cells import TableData
from spikelm.report.tables.paper_table import load_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: marker and colour of a system: filled in four time steps, open in one
SYSTEMS = {
    "BERT base": ("v", "#000000"),
    "BERT 3L": ("<", "#777777"),
    "SpikeLM": ("o", "#0072B2"),
    "SpikeLM 6L": ("h", "#56B4E9"),
    "LIF-BERT": ("s", "#D55E00"),
    "LIF-BERT*": ("X", "#E69F00"),
    "PSN-BERT*": ("P", "#F0E442"),
    "SpikingFormer": ("^", "#009E73"),
    "SpikeBERT": ("D", "#CC79A7"),
}
OTHER = (">", "#999999")
THIN = "XP"  # markers that a full one would hide


def score_against_energy(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Average score over energy of one inference, logarithmic: ours left, the paper's right."""
    table = build_table(load_table(figure.table or 3), results)
    ours, paper = points(table, "ours"), points(table, "paper")
    if not ours:
        return Drawing(remark="No system has all of its scores yet.")
    drawn, axes = new_figure(1, 2, 3.3)
    for panel, shown in zip(axes, (ours, paper), strict=True):
        _scatter(panel, shown)
    letters(axes, [f"ours, scale {table.scale}, source {table.source}", "the paper's table 3"])
    axes[0].set_ylabel("average of nine GLUE scores")
    _legend(drawn, list(dict.fromkeys([*ours, *paper])))
    return Drawing(drawn, {"ours": ours, "paper": paper})


def points(table: TableData, whose: str) -> dict[str, tuple[float, float]]:
    """Energy and average of every row that has both, by name and T."""
    points_of_rows = {}
    for line in table.lines:
        cells = [line.cells["energy_fp32"], line.cells["avg"]]
        values = [cell.mean if whose == "ours" else cell.paper for cell in cells]
        steps = line.cells["T"].paper
        if all(value is not None for value in values):
            name = f"{line.name.replace('_', ' ')}{'' if steps is None else f', T={steps}'}"
            points_of_rows[name] = (float(values[0]), float(values[1]))  # type: ignore[arg-type]
    return points_of_rows


def _shown(name: str) -> dict[str, Any]:
    marker, colour = SYSTEMS.get(name.partition(",")[0], OTHER)
    face = "white" if name.endswith("T=1") else colour
    edge = {"#F0E442": "#7A7000"}.get(colour, colour)  # yellow alone is lost on white
    return {
        "marker": marker,
        "color": face,
        "markeredgecolor": edge,
        "linestyle": "none",
        "markersize": 6 if marker in THIN else 7,
    }


def _scatter(panel: Axes, points: dict[str, tuple[float, float]]) -> None:
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    halo = [withStroke(linewidth=1.9, foreground="white")]  # what lies on another one stays apart from it
    for name, (energy, score) in points.items():
        shown = _shown(name)
        above = 3 if shown["marker"] in THIN else 2
        panel.plot(energy, score, **shown, markeredgewidth=1.3, path_effects=halo, zorder=above)
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("energy of one inference, mJ (fp32)")
    panel.margins(x=0.12, y=0.12)


def _legend(figure: Figure, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_shown(name), label=name) for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
