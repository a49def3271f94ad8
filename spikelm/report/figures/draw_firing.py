"""Figures 2 and 5: how often what each linear layer of a BERT reads fires."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from spikelm.errors import SpikeLMError
from spikelm.report.appearance import Look, look_of_preset
from spikelm.report.figures.draw_neurons import kept_active_rates
from spikelm.report.figures.figures import Drawing, Numbers, PaperFigure, Runs
from spikelm.report.figures.style import BACKED, GREY, INK, LABEL_SIZE, PAPER, letters, new_figure, not_run, percent
from spikelm.report.query.selection import Results, SelectedRun
from spikelm.store.result import FiringRate

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rates = Sequence[tuple[int, str, float]]  # layer, linear and rate
#: the linear layers of a BERT layer, each with the site of the neuron that feeds it
LINEARS = {
    "query": "qkv_in",
    "key": "qkv_in",
    "value": "qkv_in",
    "attention output": "attn_out_in",
    "FFN 1": "ffn1_in",
    "FFN 2": "ffn2_in",
}
#: what stands below a bar, and its hatch where there are too many bars to name each
SHORT = {"query": "Q", "key": "K", "value": "V", "attention output": "O", "FFN 1": "F1", "FFN 2": "F2"}
HATCHES = {"attention output": "////", "FFN 1": "....", "FFN 2": "xxxx"}
SMALL = 0.01  # a share below has a digit behind the point
NAMED = 36  # bars that can be named and numbered across a page
BESIDE = 14  # bars of a panel that has another one beside it
EXPLAINED = "Q, K, V, O: linears of attention; F1, F2: of the feed-forward network"


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
    drawn, panels = _panels(figure, results, 2, max(map(len, data.values())))
    for panel, one in zip(panels, (spiking, binary), strict=True):
        if one.name in data:
            _bars(panel, data[one.name], look_of_preset(one.system))
        else:
            not_run(panel)
    letters(panels, [f"{spiking.name}: firing rate", f"{binary.name}: share of ones"])
    percent(panels[0], 1.2 * max(0.55, *(rate for rates in data.values() for _, _, rate in rates)))
    if binary.name in data:
        panels[1].axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    drawn.supylabel("share of active values", fontsize="medium")
    _explain(drawn, max(map(len, data.values())))
    means = {name: fmean(rate for _, _, rate in rates) for name, rates in data.items()}
    for panel, one in zip(panels, (spiking, binary), strict=True):
        if one.name in means:
            _note(panel, f"mean {means[one.name]:.1%}")
    said = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
    return Drawing(drawn, {"rates": data, "means": means}, " ".join([*remarks, f"Mean over linear layers: {said}."]))


def before_and_after(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Figure 5: learnable amplitudes and k = 2, 3, 4, before and after training."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not runs:
        return Drawing()
    data: Numbers = {}
    for one, selected in runs.items():
        rate = _rates(selected)
        pair = {"before training": rate.initial_per_site, "after training": rate.per_site}
        data[one.name] = {when: linear_rates(sites) for when, sites in pair.items() if sites}
    bars = max(len(pair["after training"]) for pair in data.values())
    drawn, panels = _panels(figure, results, len(figure.series), bars)
    for panel, one in zip(panels, figure.series, strict=True):
        if one.name not in data:
            not_run(panel)
            continue
        _bars(
            panel, data[one.name]["after training"], look_of_preset(one.system), data[one.name].get("before training")
        )
        means = [f"{fmean(rate for _, _, rate in rates):.1%}" for rates in data[one.name].values()]
        _note(panel, f"mean {' → '.join(means)}")
    letters(panels, [one.name for one in figure.series])
    percent(panels[0], 1.3 * max(r for pair in data.values() for rates in pair.values() for _, _, r in rates))
    drawn.supylabel("firing rate", fontsize="medium")
    before = Line2D([], [], label="before training", color=INK, linewidth=1.4)
    _explain(drawn, bars, [before, Patch(facecolor=GREY, label="after training")])
    return Drawing(drawn, data)


def _rates(selected: SelectedRun) -> FiringRate:
    assert selected.result is not None, "only finished runs are drawn"
    return selected.result.firing_rate


def _panels(figure: PaperFigure, results: Results, count: int, bars: int) -> tuple[Figure, list[Axes]]:
    """Two panels in a row, or one where there are many bars; all with one range."""
    columns = 2 if bars <= BESIDE else 1
    rows = math.ceil(count / columns)
    drawn, axes = new_figure(
        figure.heading(results.selection), rows, columns, 1.0 + 1.9 * rows, sharey=True, squeeze=False
    )
    return drawn, list(axes.flat)


def _bars(panel: Axes, rates: Rates, look: Look, before: Rates | None = None) -> None:
    """A bar for each linear layer with its number, its name below, and a dash where it was before."""
    named = len(rates) <= NAMED
    for place, (_, linear, rate) in enumerate(rates):
        hatch = "" if named else HATCHES.get(linear, "")
        panel.bar(place, rate, 0.82, color=look.colour, hatch=hatch, edgecolor=PAPER, linewidth=0.3)
    if before:
        places = np.arange(len(before))
        for colour, width in ((PAPER, 3.2), (INK, 1.4)):  # seen on every bar
            panel.hlines([rate for _, _, rate in before], places - 0.32, places + 0.32, colors=colour, linewidths=width)
    if named:
        for place, (_, _, rate) in enumerate(rates):
            top = max(rate, before[place][2]) if before else rate
            panel.annotate(
                f"{100 * rate:.{0 if rate >= SMALL else 1}f}", (place, top), (0, 2.5), textcoords="offset points",
                ha="center", va="bottom", fontsize=LABEL_SIZE - 0.5, bbox=BACKED,
            )  # fmt: skip
        panel.set_xticks(range(len(rates)), [SHORT[linear] for _, linear, _ in rates], fontsize=LABEL_SIZE)
    layers = sorted({layer for layer, _, _ in rates})
    each = len(rates) / len(layers)
    names = [f"layer {layer + 1}" if named else str(layer + 1) for layer in layers]
    panel.set_xticks([each * (n + 0.5) - 0.5 for n in range(len(layers))], names, minor=named)
    panel.tick_params(axis="x", which="both", length=0)
    panel.tick_params(axis="x", which="minor", pad=2 * LABEL_SIZE + 1)  # below the names of the bars
    panel.xaxis.remove_overlapping_locs = False
    panel.grid(axis="x", which="both", visible=False)


def _note(panel: Axes, text: str) -> None:
    panel.text(0.99, 0.98, text, ha="right", va="top", transform=panel.transAxes, bbox=BACKED, fontsize="small")


def _explain(figure: Figure, bars: int, handles: Sequence[Artist] = ()) -> None:
    """Below all panels: what the bars are, by their short names or by their hatches."""
    from matplotlib.patches import Patch

    if bars > NAMED:
        kinds = {"query, key, value": "", **HATCHES}
        handles = [
            *handles,
            *(Patch(facecolor=GREY, hatch=h, edgecolor=PAPER, label=kind) for kind, h in kinds.items()),
        ]
    words = EXPLAINED if bars <= NAMED else "linear layers of transformer layer"
    if handles:
        columns = len(handles) if len(handles) <= 4 else math.ceil(len(handles) / 2)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=words)
    else:
        figure.supxlabel(words, fontsize="medium")
