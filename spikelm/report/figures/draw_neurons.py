"""Figures 6 to 8: input, membrane potential and spikes of one FFN neuron layer at every time step (appendix A.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spikelm.errors import SpikeLMError
from spikelm.report.figures.figures import PaperFigure, Series
from spikelm.report.figures.probes import kept_probe
from spikelm.report.figures.style import LOOKS, new_figure
from spikelm.report.query.selection import Found, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def neuron(
    figure: PaperFigure, runs: dict[Series, Found], results: Results
) -> tuple[Figure | None, dict[str, Any], str]:
    """A row a time step: histograms of input and potential, and the shares of spikes."""
    if not runs:
        return None, {}, ""
    (found,) = runs.values()
    try:
        probed = kept_probe(found, results, "picture")
    except SpikeLMError as error:
        return None, {}, f"It cannot be drawn: {error.what}."
    edges, steps = np.array(probed["edges"]), probed["steps"]
    made, axes = new_figure(len(steps), 3, 0.55 + 1.25 * len(steps), squeeze=False)
    centres, width = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
    most = max(max(step["input"] + step["membrane"]) for step in steps)
    reach = _reach(centres, steps)
    for t, (row, step) in enumerate(zip(axes, steps, strict=True)):
        for panel, what, place in ((row[0], "input", 0), (row[1], "membrane", 2)):
            panel.bar(centres, step[what], width, color=LOOKS[place]["color"], linewidth=0)
            panel.set_ylim(0, 1.1 * most)
            panel.set_xlim(-reach, reach)
            panel.text(0.98, 0.9, f"σ {step['deviation'][what]:.2f}", ha="right", va="top", transform=panel.transAxes)
        _spikes(row[2], step)
        row[0].set_ylabel(f"t = {t + 1}\nshare")
    for panel, title in zip(axes[0], ("input", "membrane potential", "spikes"), strict=True):
        panel.set_title(title, loc="left")
    for panel, label in zip(axes[-1], ("value", "value", "height of the spike"), strict=True):
        panel.set_xlabel(label)
    rate = float(np.mean([step["negative"] + step["positive"] for step in steps]))
    remark = f"Site {probed['site']}; {rate:.1%} of its values fire."
    return made, {**probed, "firing_rate": rate}, remark


def _reach(centres: np.ndarray, steps: list[dict[str, Any]]) -> float:
    """Half the width of the axis that holds all but a thousandth of the values."""
    total = np.sum([np.array(step["input"]) + np.array(step["membrane"]) for step in steps], axis=0)
    order = np.argsort(np.abs(centres))
    inside = np.cumsum(total[order]) <= 0.999 * total.sum()
    return float(np.abs(centres[order][inside]).max() if inside.any() else np.abs(centres).max()) * 1.05


def _spikes(panel: Any, step: dict[str, Any]) -> None:
    """Shares of negative, no and positive spikes, at their heights."""
    height = step["height"] or 1.0
    shares = [step["negative"], step["silent"], step["positive"]]
    bars = panel.bar(
        [-height, 0.0, height], shares, 0.3 * height, color=[LOOKS[1]["color"], "#999999", LOOKS[1]["color"]]
    )
    panel.bar_label(bars, [f"{share:.0%}" if share else "" for share in shares], fontsize=7.5, padding=1)
    panel.set_ylim(0, 1.25)
    panel.set_xlim(-1.6 * height, 1.6 * height)
    panel.set_xticks([-height, 0.0, height], [f"{-height:.2g}".replace("-", "−"), "0", f"{height:.2g}"])
