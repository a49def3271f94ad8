"""Figures 2 and 5: how often what each linear layer of a BERT reads fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from spikelm.errors import SpikeLMError
from spikelm.report.figures.draw_neurons import kept_active_rates
from spikelm.report.figures.figures import Drawing, Numbers, PaperFigure, Runs
from spikelm.report.figures.style import GREY, LOOKS, letters, look, new_figure, not_run, percent
from spikelm.report.query.selection import Results, SelectedRun
from spikelm.store.result import FiringRate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: the linear layers of a BERT layer, each with the site of the neuron that feeds it
LINEARS = {
    "query": "qkv_in",
    "key": "qkv_in",
    "value": "qkv_in",
    "attention output": "attn_out_in",
    "FFN 1": "ffn1_in",
    "FFN 2": "ffn2_in",
}
#: colour and hatch of a kind of linear layer; query, key and value read the same spikes
KINDS = {
    "query, key, value": (LOOKS[0]["color"], ""),
    "attention output": (LOOKS[1]["color"], "///"),
    "FFN 1": (LOOKS[2]["color"], ".."),
    "FFN 2": (LOOKS[5]["color"], "xx"),
}
SILENT = 0.01  # a share that has no height


def linear_rates(per_site: Mapping[str, float]) -> list[tuple[int, str, float]]:
    """Layer, linear and rate, in the order of computation; six linears per layer."""
    layers = sorted({int(site.split(".")[2]) for site in per_site if site.startswith("encoder.layer.")})
    return [
        (layer, linear, per_site[name])
        for layer in layers
        for linear, site in LINEARS.items()
        if (name := f"encoder.layer.{layer}.{site}") in per_site
    ]


def layer_rates(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Figure 2: spikes of LIF-BERT, ones of a binary BERT."""
    spiking, binary = figure.series
    data: Numbers = {}
    remarks = []
    if spiking in runs:
        data[spiking.name] = linear_rates(_rates(runs[spiking]).per_site)
    if binary in runs:
        try:
            data[binary.name] = linear_rates(kept_active_rates(runs[binary], results))
        except SpikeLMError as error:
            remarks.append(f"{binary.name}: {error.what}.")
    if not data:
        return Drawing(remark=" ".join(remarks))
    drawn, axes = new_figure(1, 2, 2.5, sharey=True)
    for panel, name in zip(axes, (spiking.name, binary.name), strict=True):
        if name in data:
            _bars(panel, data[name])
        else:
            not_run(panel)
    letters(axes, [f"{spiking.name}: firing rate", f"{binary.name}: share of ones"])
    percent(axes[0], 0.75)
    axes[1].axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    axes[0].set_ylabel("share of active values")
    _kinds_legend(drawn)
    means = {name: fmean(rate for _, _, rate in rates) for name, rates in data.items()}
    said = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
    return Drawing(drawn, {"rates": data, "means": means}, " ".join([*remarks, f"Mean over linear layers: {said}."]))


def _rates(selected: SelectedRun) -> FiringRate:
    assert selected.result is not None, "only finished runs are drawn"
    return selected.result.firing_rate


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


def before_and_after(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Figure 5: learnable amplitudes and k = 2, 3, 4, before and after training."""
    if not runs:
        return Drawing()
    drawn, axes = new_figure(2, 2, 4.2, sharey=True)
    data: Numbers = {}
    for panel, one in zip(axes.flat, figure.series, strict=True):
        if one not in runs:
            not_run(panel)
            continue
        rate = _rates(runs[one])
        pair = {"before training": rate.initial_per_site, "after training": rate.per_site}
        data[one.name] = {when: linear_rates(sites) for when, sites in pair.items() if sites}
        for place, (when, rates) in enumerate(data[one.name].items()):
            mean = fmean(rate for _, _, rate in rates)
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
    return Drawing(drawn, data)
