"""Figure 4: pretraining loss over the number of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikelm.report.appearance import look_of_preset
from spikelm.report.figures.figures import Drawing, Numbers, PaperFigure, Runs
from spikelm.report.figures.style import marker_size, new_figure
from spikelm.report.query.selection import Results


def power_law(parameters: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """a and b of loss = a N^-b, by least squares of the logarithms."""
    slope, start = np.polyfit(np.log(parameters), np.log(losses), 1)
    return float(np.exp(start)), float(-slope)


def fit_quality(losses: np.ndarray, fitted: np.ndarray) -> float:
    """R² of a fit by least squares of the logarithms: the share of their variance that it explains."""
    logs = np.log(losses)
    return float(1 - np.sum((logs - np.log(fitted)) ** 2) / np.sum((logs - logs.mean()) ** 2))


def scaling(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """One line per number of time steps; loss of held-out text, masked words and next sentence together."""
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one, selected in runs.items():
        if selected.result is not None and (loss := selected.result.metrics["loss"]) is not None:
            name = one.name.partition(",")[0]
            lines.setdefault((name, one.system), []).append((selected.result.parameters, loss))
    if not lines:
        return Drawing()
    drawn, panel = new_figure(figure.heading(results.selection), 1, 1, 3.6)
    data: Numbers = {}
    for place, ((name, system), points) in enumerate(lines.items()):
        x, y = (np.array(column, dtype=float) for column in zip(*sorted(points), strict=True))
        data[name] = {"parameters": x.tolist(), "loss": y.tolist()}
        look, line, label = look_of_preset(system), "none", name
        if len(x) > 1:
            a, b = power_law(x, y)
            fitted = a * x**-b
            data[name] |= {"a": a, "b": b, "r2": fit_quality(y, fitted), "fitted": fitted.tolist()}
            label = rf"{name}: loss $\propto N^{{{-b:.3f}}}$, $R^2$ = {data[name]['r2']:.3f} ({len(x)} widths)"
            line = "--" if place else "-"
            panel.plot(x, fitted, color=look.colour, linestyle=line, linewidth=0.9)
        marked: dict[str, Any] = {"marker": look.marker, "markersize": 5 * marker_size(look.marker)}
        panel.plot(x, y, color=look.colour, linestyle="none", **marked)
        panel.plot([], [], color=look.colour, linestyle=line, linewidth=0.9, label=label, **marked)
    panel.set_xscale("log")
    panel.set_yscale("log")
    _plain_ticks(panel, [value for line in data.values() for value in (*line["loss"], *line.get("fitted", ()))])
    panel.set_xlabel("parameters N")
    panel.set_ylabel("pretraining loss, held-out text; lower is better")
    panel.legend(loc="lower left")
    return Drawing(drawn, data, "R² is that of the logarithms.")


def _plain_ticks(panel: Any, values: list[float]) -> None:
    """Losses are within a factor of two: numbers, not powers of ten."""
    from matplotlib.ticker import EngFormatter, FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    panel.yaxis.set_major_locator(MaxNLocator(6))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FormatStrFormatter("%.1f"))
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(0.97 * min(values), 1.03 * max(values))
