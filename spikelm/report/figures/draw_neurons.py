"""Figures 6 to 8: input, membrane potential and spikes of one FFN neuron layer at every time step (appendix A.4).

Probes of trained models are kept as numbers beside the figures: their weights are needed once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spikelm.errors import CheckpointError, SpikeLMError
from spikelm.report.appearance import look_of_preset
from spikelm.report.figures.figures import Drawing, PaperFigure, Runs
from spikelm.report.figures.style import GREY, LABEL_SIZE, PALE, new_figure, percent
from spikelm.report.query.output import own_store, writable
from spikelm.report.query.selection import Results, SelectedRun
from spikelm.store.atomic import write_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spikelm.runs.probe import SitePicture, StepPicture

OUTSIDE = 0.002  # of a histogram: a few far values would make it a needle


def kept_active_rates(selected: SelectedRun, results: Results) -> dict[str, float]:
    """Share of active values that leaves each site of a finished run's model."""
    rates: dict[str, float] = _kept_probe(selected, results, "active_rates")
    return rates


def kept_picture(selected: SelectedRun, results: Results) -> SitePicture:
    """What one neuron layer of a finished run's model sees and does."""
    from spikelm.runs.probe import read_picture

    return read_picture(_kept_probe(selected, results, "picture"))


def _kept_probe(selected: SelectedRun, results: Results, name: str) -> Any:
    """What `spikelm.runs.probe` says of a finished run; from figures/data/ where it was asked before."""
    selection, file = results.selection, Path("figures", "data", f"{name}-{selected.run.id}.json")
    for place in (selection.folder, selection.root):  # a store like runs/reference brings them with it
        if (place / file).is_file():
            return json.loads((place / file).read_text())
    if selected.result is None or not (selected.run.directory / "model" / "config.json").is_file():
        raise CheckpointError(f"{selected.run.directory} has no weights", "run it again with force=true")
    from spikelm.runs import probe

    model, batch = probe.load_for_probe(selected.run.directory, selected.result.config, own_store())
    value = probe.active_rates(model, batch) if name == "active_rates" else asdict(probe.picture(model, batch))
    path = selection.folder / file
    writable(path.parent)
    write_json(path, value)
    return value


def neuron(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """One row per time step: histograms of input and potential, and the shares of spikes."""
    if not runs:
        return Drawing()
    (selected,) = runs.values()
    try:
        picture = kept_picture(selected, results)
    except SpikeLMError as error:
        return Drawing(remark=f"It cannot be drawn: {error.what}.")
    rate = float(np.mean([step.negative + step.positive for step in picture.steps]))
    drawn = _histograms(picture, look_of_preset(selected.wanted.system).colour, figure.heading(results.selection))
    remark = f"Site {picture.site}; {rate:.1%} of its values fire."
    remark += f" At most {OUTSIDE:.1%} of the values of a histogram lie outside of its axis."
    return Drawing(drawn, {**asdict(picture), "firing_rate": rate}, remark)


def _histograms(picture: SitePicture, colour: str, heading: str) -> Figure:
    """Columns of input and potential have a range each, that of all time steps, and one height."""
    edges, steps = np.array(picture.edges), picture.steps
    drawn, axes = new_figure(heading, len(steps), 3, 0.95 + 1.15 * len(steps), squeeze=False)
    shown = (("input", GREY, [step.input for step in steps]), ("membrane", colour, [step.membrane for step in steps]))
    most = max(max(shares) for _, _, rows in shown for shares in rows)
    for column, (what, filled, rows) in enumerate(shown):
        limits = inner_range(edges, rows)
        for panel, step, shares in zip(axes[:, column], steps, rows, strict=True):
            panel.stairs(shares, edges, fill=True, color=filled)
            percent(panel, 1.12 * most)
            panel.set_xlim(*limits)
            _deviation(panel, step.deviation[what])
    for t, (row, step) in enumerate(zip(axes, steps, strict=True)):
        _spikes(row[2], step, colour)
        row[0].set_ylabel(f"t = {t + 1}")
        row[1].set_yticklabels([])
        for panel in row[:2]:
            panel.tick_params(axis="x", labelbottom=t == len(steps) - 1)
    for panel, title in zip(axes[0], ("input", "membrane potential", "spikes"), strict=True):
        panel.set_title(title, loc="left")
    for panel, label in zip(axes[-1], ("value", "value", "height of the spike"), strict=True):
        panel.set_xlabel(label)
    drawn.supylabel("share of the values of each time step", fontsize="medium")
    return drawn


def inner_range(edges: np.ndarray, rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The narrowest edges that leave at most half of `OUTSIDE` of each histogram on either side."""
    lows, highs = [], []
    for shares in rows:
        below = np.concatenate([[0.0], np.cumsum(shares)]) / np.sum(shares)  # at each edge
        lows.append(edges[np.flatnonzero(below <= OUTSIDE / 2)[-1]])
        highs.append(edges[np.flatnonzero(below >= 1 - OUTSIDE / 2)[0]])
    return float(min(lows)), float(max(highs))


def _deviation(panel: Axes, value: float) -> None:
    """Its standard deviation, in the corner with more room."""
    panel.text(0.02, 0.95, f"σ = {value:.2f}", ha="left", va="top", transform=panel.transAxes, fontsize=LABEL_SIZE)


def _spikes(panel: Axes, step: StepPicture, colour: str) -> None:
    """Shares of negative, no and positive spikes, at their heights."""
    height = step.height or 1.0
    shares = [step.negative, step.silent, step.positive]
    bars = panel.bar([-height, 0.0, height], shares, 0.4 * height, color=[colour, PALE, colour])
    panel.bar_label(bars, [f"{share:.0%}" if share else "" for share in shares], fontsize=LABEL_SIZE, padding=1)
    percent(panel, 1.2)
    panel.set_yticks([0.0, 0.5, 1.0])
    panel.set_xlim(-1.6 * height, 1.6 * height)
    panel.set_xticks([-height, 0.0, height], [f"{-height:.2g}".replace("-", "−"), "0", f"{height:.2g}"])
