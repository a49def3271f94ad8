"""Figures 2 and 5: how often the input of every linear layer fires."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from spikelm.errors import SpikeLMError
from spikelm.report.figures.figures import PaperFigure, Series
from spikelm.report.figures.linear_sites import linear_rates
from spikelm.report.figures.probes import kept_probe
from spikelm.report.figures.style import GREY, LOOKS, letters, look, new_figure, not_run, percent
from spikelm.report.query.selection import Found, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: colour and hatch of a kind of linear layer; query, key and value read the same spikes
KINDS = {
    "query, key, value": (LOOKS[0]["color"], ""),
    "attention output": (LOOKS[1]["color"], "///"),
    "FFN 1": (LOOKS[2]["color"], ".."),
    "FFN 2": (LOOKS[5]["color"], "xx"),
}


SILENT = 0.01  # a share that has no height


def layer_rates(
    figure: PaperFigure, runs: dict[Series, Found], results: Results
) -> tuple[Figure | None, dict[str, Any], str]:
    """Figure 2: spikes of LIF-BERT, ones of a binary BERT."""
    spiking, binary = figure.series
    data: dict[str, Any] = {}
    remarks = []
    if spiking in runs:
        data[spiking.name] = linear_rates((runs[spiking].result or {})["firing_rate"]["per_site"])
    if binary in runs:
        try:
            data[binary.name] = linear_rates(kept_probe(runs[binary], results, "active_rates"))
        except SpikeLMError as error:
            remarks.append(f"{binary.name}: {error.what}.")
    if not data:
        return None, {}, " ".join(remarks)
    made, axes = new_figure(1, 2, 2.5, sharey=True)
    for panel, name in zip(axes, (spiking.name, binary.name), strict=True):
        if name in data:
            _bars(panel, data[name])
        else:
            not_run(panel)
    letters(axes, [f"{spiking.name}: firing rate", f"{binary.name}: share of ones"])
    percent(axes[0], 0.75)
    axes[1].axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    axes[0].set_ylabel("share of active values")
    _kinds_legend(made)
    means = {name: fmean(rate for _, _, rate in rates) for name, rates in data.items()}
    said = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
    return made, {"rates": data, "means": means}, " ".join([*remarks, f"Mean over linear layers: {said}."])


def _bars(panel: Axes, rates: Sequence[tuple[int, str, float]]) -> None:
    for place, (_, linear, rate) in enumerate(rates):
        colour, hatch = KINDS.get(linear, KINDS["query, key, value"])
        panel.bar(place, rate, 0.85, color=colour, hatch=hatch, edgecolor="white", linewidth=0.3)
        if rate < SILENT:  # a bar that nobody sees is not a missing one
            panel.text(place, 0.01, f"{rate:.1%}", ha="center", va="bottom", rotation=90, fontsize=6, color=colour)
    _layer_axis(panel, rates)


def _layer_axis(panel: Axes, rates: Sequence[tuple[int, str, float]]) -> None:
    layers = sorted({layer for layer, _, _ in rates})
    width = len(rates) / len(layers)
    panel.set_xticks([width * (n + 0.5) - 0.5 for n in range(len(layers))], [str(layer + 1) for layer in layers])
    panel.set_xlabel("linear layers of transformer layer")
    panel.grid(axis="x", visible=False)


def _kinds_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=c, hatch=h, edgecolor="white", label=kind) for kind, (c, h) in KINDS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, fontsize=8)


def before_and_after(
    figure: PaperFigure, runs: dict[Series, Found], results: Results
) -> tuple[Figure | None, dict[str, Any], str]:
    """Figure 5: learnable amplitudes and k = 2, 3, 4, before and after training."""
    if not runs:
        return None, {}, ""
    made, axes = new_figure(2, 2, 4.2, sharey=True)
    data: dict[str, Any] = {}
    for panel, one in zip(axes.flat, figure.series, strict=True):
        if one not in runs:
            not_run(panel)
            continue
        rate = (runs[one].result or {})["firing_rate"]
        pair = {"before training": rate.get("initial_per_site") or {}, "after training": rate["per_site"]}
        data[one.name] = {when: linear_rates(sites) for when, sites in pair.items() if sites}
        for place, (when, rates) in enumerate(data[one.name].items()):
            mean = fmean(found for _, _, found in rates)
            shown = look(place, line=place == 1)
            label = f"{when}: mean {mean:.1%}"
            if place == 0:
                panel.plot([r for _, _, r in rates], color=shown["color"], marker="o", linestyle=":", label=label)
            else:
                panel.bar(
                    range(len(rates)), [r for _, _, r in rates], 0.8, color=shown["color"], alpha=0.55, label=label
                )
        _layer_axis(panel, next(reversed(data[one.name].values())))
        panel.legend(loc="upper right")
    letters(list(axes.flat), [one.name for one in figure.series])
    percent(
        axes[0][0], min(1.0, 1.35 * max(r for pair in data.values() for rates in pair.values() for _, _, r in rates))
    )
    for panel in axes[0]:
        panel.set_xlabel("")
    for row in axes:
        row[0].set_ylabel("firing rate")
    return made, data, ""
