"""Figure 4: pretraining loss over the number of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spikelm.report.figures.figures import Drawing, Numbers, PaperFigure, Runs
from spikelm.report.figures.style import look, new_figure
from spikelm.report.query.selection import Results

if TYPE_CHECKING:
    pass


def power_law(parameters: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """a and b of loss = a N^-b, by least squares of the logarithms."""
    slope, start = np.polyfit(np.log(parameters), np.log(losses), 1)
    return float(np.exp(start)), float(-slope)


def scaling(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """One line per number of time steps; loss of held-out text, masked words and next sentence together."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for one, selected in runs.items():
        if selected.result is not None and (loss := selected.result.metrics["loss"]) is not None:
            lines.setdefault(one.name.partition(",")[0], []).append((selected.result.parameters, loss))
    if not lines:
        return Drawing()
    drawn, panel = new_figure(1, 1, 3.2)
    data: Numbers = {}
    for place, (name, points) in enumerate(lines.items()):
        x, y = (np.array(column, dtype=float) for column in zip(*sorted(points), strict=True))
        data[name] = {"parameters": x.tolist(), "loss": y.tolist()}
        label = name
        if len(x) > 1:
            a, b = power_law(x, y)
            data[name] |= {"a": a, "b": b}
            label = rf"{name}: loss $\propto N^{{{-b:.3f}}}$"
            shown = look(place)
            data[name]["fitted"] = (a * x**-b).tolist()
            panel.plot(x, a * x**-b, color=shown["color"], linestyle=shown["linestyle"], linewidth=0.9, alpha=0.7)
        panel.plot(x, y, label=label, **{**look(place), "linestyle": "none"})
    panel.set_xscale("log")
    panel.set_yscale("log")
    _plain_ticks(panel, [value for line in data.values() for value in (*line["loss"], *line.get("fitted", ()))])
    panel.set_xlabel("parameters")
    panel.set_ylabel("pretraining loss, held-out text")
    panel.legend()
    return Drawing(drawn, data)


def _plain_ticks(panel: Any, values: list[float]) -> None:
    """Losses are within a factor of two: numbers, not powers of ten."""
    from matplotlib.ticker import EngFormatter, FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

    panel.yaxis.set_major_locator(MaxNLocator(6))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%.1f"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(0.97 * min(values), 1.03 * max(values))
