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
from spikelm.report.figures.figures import Drawing, PaperFigure, Runs
from spikelm.report.figures.style import LOOKS, new_figure
from spikelm.report.query.output import own_store, writable
from spikelm.report.query.selection import Results, SelectedRun
from spikelm.store.atomic import write_json

if TYPE_CHECKING:
    from spikelm.runs.probe import SitePicture, StepPicture


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
    edges, steps = np.array(picture.edges), picture.steps
    drawn, axes = new_figure(len(steps), 3, 0.55 + 1.25 * len(steps), squeeze=False)
    centres, width = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
    most = max(max(step.input + step.membrane) for step in steps)
    reach = _reach(centres, steps)
    for t, (row, step) in enumerate(zip(axes, steps, strict=True)):
        for panel, what, shares, place in ((row[0], "input", step.input, 0), (row[1], "membrane", step.membrane, 2)):
            panel.bar(centres, shares, width, color=LOOKS[place]["color"], linewidth=0)
            panel.set_ylim(0, 1.1 * most)
            panel.set_xlim(-reach, reach)
            panel.text(0.98, 0.9, f"σ {step.deviation[what]:.2f}", ha="right", va="top", transform=panel.transAxes)
        _spikes(row[2], step)
        row[0].set_ylabel(f"t = {t + 1}\nshare")
    for panel, title in zip(axes[0], ("input", "membrane potential", "spikes"), strict=True):
        panel.set_title(title, loc="left")
    for panel, label in zip(axes[-1], ("value", "value", "height of the spike"), strict=True):
        panel.set_xlabel(label)
    rate = float(np.mean([step.negative + step.positive for step in steps]))
    remark = f"Site {picture.site}; {rate:.1%} of its values fire."
    return Drawing(drawn, {**asdict(picture), "firing_rate": rate}, remark)


def _reach(centres: np.ndarray, steps: Sequence[StepPicture]) -> float:
    """Half the width of the axis that holds all but a thousandth of the values."""
    total = np.sum([np.array(step.input) + np.array(step.membrane) for step in steps], axis=0)
    order = np.argsort(np.abs(centres))
    inside = np.cumsum(total[order]) <= 0.999 * total.sum()
    return float(np.abs(centres[order][inside]).max() if inside.any() else np.abs(centres).max()) * 1.05


def _spikes(panel: Any, step: StepPicture) -> None:
    """Shares of negative, no and positive spikes, at their heights."""
    height = step.height or 1.0
    shares = [step.negative, step.silent, step.positive]
    bars = panel.bar(
        [-height, 0.0, height], shares, 0.3 * height, color=[LOOKS[1]["color"], "#999999", LOOKS[1]["color"]]
    )
    panel.bar_label(bars, [f"{share:.0%}" if share else "" for share in shares], fontsize=7.5, padding=1)
    panel.set_ylim(0, 1.25)
    panel.set_xlim(-1.6 * height, 1.6 * height)
    panel.set_xticks([-height, 0.0, height], [f"{-height:.2g}".replace("-", "−"), "0", f"{height:.2g}"])
