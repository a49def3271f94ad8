"""An energy card on the console: what was counted, what is modelled and by whom, and apart what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.counts import REASONS, ModelCounts, ProductCount
from spikelm.catalog.estimators import (
    ESTIMATORS,
    FP32,
    INT8,
    NETWORKS,
    WHOSE,
    Estimate,
    Hierarchy,
    synaptic_operations,
    traffic,
)
from spikelm.catalog.quantities import counted, duration, gigabytes, rate_text, significant
from spikelm.machine.meters import NotMeasurable

if TYPE_CHECKING:
    from spikelm.measure.measured_cost import MeasuredCost

_WIDEST = 3  # names of modules in a line
HIERARCHY = Hierarchy()


def print_counts(title: str, inputs: str, counts: ModelCounts, console: Console) -> None:
    """The model, and the operations of one inference."""
    size = f"{counts.parameters:,} parameters, {gigabytes(counts.footprint / 1e9)} with buffers"
    _say(console, f"{title}: {size}; {counted(counts.T, 'time step')}")
    _say(console, f"watched on {inputs}; all counts are of one input\n")
    table = _table("operations of matrix products", ("what is read", ""), ("dense", "active", "NeuroBench", "share"))
    total = sum(one.macs for one in counts.products)
    for reads in REASONS:
        group = [one for one in counts.products if one.reads == reads]
        if group:
            what = "ACs" if reads != "real values" else "MACs"
            table.add_row(reads, what, *_operations(group, counts.rows), f"{_of(group, 'macs') / total:.1%}")
    table.add_section()
    table.add_row("all", "", *_operations(counts.products, counts.rows), "100%")
    console.print(table)
    for reads, reason in REASONS.items():
        group = [one for one in counts.products if one.reads == reads]
        if group:
            what = "MACs" if reads == "real values" else "ACs"
            _say(console, f"{what}, because {reason}: {_modules(group)}")
    seen = synaptic_operations(counts)
    _say(
        console,
        f"By NeuroBench's rules: dense {_short(seen.dense)}, effective MACs {_short(seen.effective_macs)}, effective "
        f"ACs {_short(seen.effective_acs)}; {_short(seen.missed_macs)} dense operations run where it does not look.\n",
    )


def _operations(group: Sequence[ProductCount], rows: int) -> list[str]:
    return [_short(_of(group, name) / rows) for name in ("macs", "active", "effective")]


def _of(group: Iterable[ProductCount], name: str) -> int:
    return sum(getattr(one, name) for one in group)


def _modules(group: Iterable[ProductCount]) -> str:
    """Modules with `*` for the numbers of blocks, the first few of them."""
    names = list(dict.fromkeys(re.sub(r"\.\d+\b", ".*", one.module) + _kind(one) for one in group))
    more = f" and {len(names) - _WIDEST} more" if len(names) > _WIDEST else ""
    return ", ".join(names[:_WIDEST]) + more


def _kind(one: ProductCount) -> str:
    return "" if one.kind == "linear" else f" ({one.kind})"


def print_besides(counts: ModelCounts, console: Console) -> None:
    """Neurons, and what stays real-valued besides matrix products."""
    if counts.neurons:
        updates, events = (sum(getattr(one, name) for one in counts.neurons) for name in ("updates", "events"))
        rate = counts.firing_rate or 0.0
        unfolds = counts.most_spikes > 1
        weighted = f"{rate_text(rate, unfolds)} weighted by the products that read them"
        each = f", up to {counts.most_spikes} a value and step" if unfolds else ""
        _say(
            console,
            f"Neurons: {_short(updates / counts.rows)} updates, {_short(events / counts.rows)} spikes{each} "
            f"({events / updates if updates else 0:.3f} an update; {weighted}).",
        )
    groups: dict[str, int] = {}
    for one in counts.operators:
        if one.arithmetic == "real-valued":
            groups[one.name] = groups.get(one.name, 0) + one.values
    real = [f"{name} {_short(values / counts.rows)} values" for name, values in groups.items()]
    real += [f"embeddings {_short(counts.looked_up / counts.rows)} values"] if counts.looked_up else []
    if real:
        _say(console, f"Real-valued besides: {', '.join(real)}.")


def print_estimates(lines: Sequence[Estimate], spiking: bool, console: Console, of: str = "") -> None:
    """The estimators next to each other, each of them a model of somebody's."""
    heading = f"{of}modelled energy of one inference, mJ"
    columns = ("this\nnetwork", "plain\nmodel", "quantised\ntwin")
    table = _table(heading, ("estimator", "arithmetic"), (*columns, *(["break-even"] if spiking else [])))
    for line in lines:
        cells = [significant(getattr(line, network), 4) for network in NETWORKS]
        table.add_row(line.estimator, line.arithmetic, *cells, *([_break_even(line)] if spiking else []))
    console.print(table)
    for name in dict.fromkeys(line.estimator for line in lines):
        _say(console, f"{name}: {WHOSE[name]}")
    _say(
        console,
        "int8: weights of 8 bits, sums of 32; what stays real-valued in the network costs the same in all three",
    )
    if spiking:
        _say(
            console,
            "break-even: spikes a value and time step at which this network costs what its quantised twin costs, "
            "which computes each value once on as many levels.",
        )


def _break_even(line: Estimate) -> str:
    words = {"always": "cheaper at any", "never": "dearer at any", "": "-"}
    return words.get(line.cheaper) or significant(line.break_even or 0.0)


def print_traffic(counts: ModelCounts, console: Console) -> None:
    """Bytes moved by kind, modelled for the stated hierarchy."""
    cases = [(arithmetic, network) for arithmetic in (FP32, INT8) for network in NETWORKS]
    moved = [traffic(counts, arithmetic, network, HIERARCHY) for arithmetic, network in cases]
    names = {"network": "network", "plain": "plain", "twin": "twin"}
    headings = [f"{names[network]}\n{arithmetic.name}" for arithmetic, network in cases]
    table = _table("modelled traffic of one inference", ("bytes of",), headings)
    for kind in moved[0]:
        if any(of[kind] for of in moved):
            table.add_row(kind, *(_bytes(of[kind] / counts.rows) for of in moved))
    console.print(table)
    _say(
        console,
        f"Hierarchy: {HIERARCHY.together} tokens side by side share a weight that is read from banks of 1 MB, and all "
        f"steps of a token do; activations, spikes and membranes are in 32 kB. Up to {HIERARCHY.chip / 1e6:.0f} MB of "
        f"weights stay on the chip; more come from DRAM, once for each input.\n",
    )


def print_blocks(counts: ModelCounts, console: Console) -> None:
    """Each block by itself, under each estimator."""
    table = _table(
        "modelled energy by block, mJ", ("block",), [f"{one.name}\n{one.arithmetic.name}" for one in ESTIMATORS]
    )
    for block, part in counts.by_block().items():
        table.add_row(block, *(significant(one.mj(part, "network"), 3) for one in ESTIMATORS))
    console.print(table)


def print_sites(counts: ModelCounts, console: Console) -> None:
    """How sparse the activations are, by site."""
    table = _table("activations by site", ("site",), ("updates", "spikes", "spikes a value", "silent values"))
    for one in counts.neurons:
        cells = (_short(one.updates / counts.rows), _short(one.events / counts.rows), f"{one.rate:.3f}")
        table.add_row(one.site, *cells, f"{one.silent / one.updates:.1%}" if one.updates else "-")
    console.print(table)


def print_measured(cost: MeasuredCost, console: Console) -> None:
    """What was measured on this machine, apart from all that is modelled."""
    spread = f"{duration(cost.seconds.least)} to {duration(cost.seconds.most)} in {counted(cost.repeats, 'repeat')}"
    _say(
        console,
        f"\nMeasured on this machine, one input of {cost.rows}: {duration(cost.seconds.median)} ({spread}); its matrix "
        f"products read and wrote {gigabytes(cost.product_bytes / 1e9)} in torch.",
    )
    if isinstance(cost.energy, NotMeasurable):
        fix = f" ({cost.energy.fix})" if cost.energy.fix else ""
        _say(console, f"Joules: not measurable here, because {cost.energy.because}{fix}.")
        return
    joules = cost.energy.joules
    one = [value / cost.rows for value in (joules.median, joules.least, joules.most)]
    parts = ", ".join(f"{part.name} by {part.source}" for part in cost.energy.parts)
    _say(
        console,
        f"Joules: {significant(one[0])} J above idle ({significant(one[1])} to {significant(one[2])}), of {parts}; "
        f"idle {significant(cost.energy.idle_watts.median)} W.",
    )
    for missing in cost.energy.missing:
        _say(console, f"Not in it: {missing.what}, because {missing.because}.")


def _bytes(bits: float) -> str:
    return gigabytes(bits / 8e9) if bits else "0"


def _short(number: float) -> str:
    """A count in thousands, millions or billions."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{significant(number / size, 4)}{letter}"
    return f"{number:,.0f}"


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
