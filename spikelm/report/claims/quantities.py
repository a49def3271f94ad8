"""The numbers that claims compare: scores, energies, firing rates and verdicts of systems, mean over the seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from spikelm.errors import ConfigError
from spikelm.report.figures.figures import load_figure, series_of
from spikelm.report.figures.linear_sites import linear_rates
from spikelm.report.query.selection import Found, Results
from spikelm.report.tables.measures import has_pretraining
from spikelm.report.tables.paper_table import GLUE, PaperTable, load_table


@dataclass(frozen=True)
class Quantity:
    """What is measured: `measure` of a system, or `metric` of its run on a task."""

    system: str
    measure: str = ""
    task: str = ""
    metric: str = ""
    table: int = 3  # whose metrics an average has


def avg(table: PaperTable, results: Sequence[dict[str, Any]]) -> float:
    """The mean of nine numbers with a table's metrics."""
    scores = {(result["task"], name): value for result in results for name, value in result["metrics"].items()}
    first = {result["task"]: next(iter(result["metrics"])) for result in results}
    return fmean(scores[column.task, column.metric or first[column.task]] for column in table.averaged)


def constant(table: PaperTable, results: Sequence[dict[str, Any]]) -> float:
    """The same of the constant predictor."""
    return avg(table, [{**result, "metrics": result["constant_predictor"]} for result in results])


def runs_of(quantity: Quantity, results: Results, seed: int) -> list[Found]:
    """The runs that a quantity is computed from."""
    system = quantity.system
    if quantity.measure in WIDTHS:
        return [
            results.find(one.system, one.task, extra=one.extra)
            for one in series_of(load_figure("fig4"), results)
            if one.system == system
        ]
    if quantity.task:
        return [results.find(system, quantity.task, seed)]
    if quantity.measure in AVERAGES or not has_pretraining(results.find(system, f"glue/{GLUE[0]}", seed).config):
        return [results.find(system, f"glue/{task}", seed) for task in GLUE]
    return [results.find(system, "pretrain", seed)]


#: measures that are averages over GLUE
AVERAGES = {"avg": avg, "constant": constant}
#: measures over the widths of figure 4: True where every wider model has a lower loss, and the losses' sum
WIDTHS = ("losses_fall", "loss_sum")


def measured(quantity: Quantity, results: Results, seed: int) -> tuple[float | None, list[Found]]:
    """The value at one seed, None while a run of it is missing, and its runs."""
    runs = runs_of(quantity, results, seed)
    told = [run.result for run in runs if run.result is not None]
    if not runs or len(told) < len(runs):
        return None, runs
    return _value(quantity, told), runs


def _value(quantity: Quantity, told: Sequence[dict[str, Any]]) -> float | None:
    name = quantity.measure
    if quantity.metric:
        return told[0]["metrics"].get(quantity.metric)
    if name in AVERAGES:
        return AVERAGES[name](load_table(quantity.table), told)
    if name in WIDTHS:
        losses = [run["metrics"]["loss"] for run in sorted(told, key=lambda run: run["parameters"])]
        falls = all(wide < narrow for narrow, wide in itertools.pairwise(losses))
        return float(falls) if name == "losses_fall" else sum(losses)
    if name not in SINGLE:
        raise ConfigError(
            f"measure {name!r} of a claim is not known", f"known: {', '.join((*SINGLE, *AVERAGES, *WIDTHS))}"
        )
    values = [SINGLE[name](run) for run in told]
    return None if any(value is None for value in values) else fmean(value for value in values if value is not None)


def _linears(per_site: Any) -> float | None:
    rates = [rate for _, _, rate in linear_rates(per_site or {})]
    return fmean(rates) if rates else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


#: measures of one run; firing rates in percent, verdicts 1 where spike-driven
SINGLE: dict[str, Any] = {
    "energy_fp32": lambda run: run["energy_mj"]["fp32"],
    "energy_fp16": lambda run: run["energy_mj"]["fp16"],
    "firing": lambda run: _percent(run["firing_rate"]["mean"]),
    "firing_linears": lambda run: _percent(_linears(run["firing_rate"]["per_site"])),
    "firing_before": lambda run: _percent(_linears(run["firing_rate"].get("initial_per_site"))),
    "fully": lambda run: float(run["spike_driven"]["verdict"] == "fully"),
    "decoding_fully": lambda run: float(run["spike_driven"].get("decoding") == "fully"),
}
