"""Statements of the paper as checks on results (conf/claims.yaml): held, failed or not run, with the numbers."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean
from typing import Any, Literal

import yaml

from spikelm.catalog.estimators import KEYS
from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.report.energy_cards import estimates_of
from spikelm.report.figures.draw_firing import linear_rates
from spikelm.report.figures.figures import load_figure, series_of
from spikelm.report.query.selection import Results, SelectedRun
from spikelm.report.tables.build import has_pretraining
from spikelm.report.tables.paper_table import GLUE, PaperTable, load_table
from spikelm.store.result import Metrics, Result

Status = Literal["held", "failed", "not run"]


@dataclass(frozen=True)
class Quantity:
    """What is measured: `measure` of a system, or `metric` of its run on a task."""

    system: str
    measure: str = ""
    task: str = ""
    metric: str = ""
    table: int = 3  # whose metrics an average has


@dataclass(frozen=True)
class Claim:
    """A statement, the quantities it is about and what has to hold between them."""

    id: str
    section: str
    statement: str
    ours: dict[str, Quantity]
    holds: str  # a comparison of their names, as in Python
    paper: dict[str, float]  # the same quantities as the paper has them; may be fewer


@dataclass(frozen=True)
class Verdict:
    """A claim and what the runs of a selection say about it."""

    id: str
    section: str
    statement: str
    status: Status
    check: str  # what was compared
    numbers: dict[str, float] = field(default_factory=dict)  # ours, by name
    paper: dict[str, float] = field(default_factory=dict)  # the paper's own numbers, by name
    runs: tuple[str, ...] = ()  # ids
    missing: tuple[str, ...] = ()  # commands of the runs that are not finished
    reason: str = ""  # why it cannot be checked at this scale at all

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return dict(vars(self)) | {"runs": list(self.runs), "missing": list(self.missing)}


@lru_cache(maxsize=1)
def load_claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper; read once, because every page of a site asks for them."""
    raw = yaml.safe_load((config_dir() / "claims.yaml").read_text())
    return tuple(
        Claim(**{**one, "ours": {name: Quantity(**of) for name, of in one["ours"].items()}}) for one in raw["claims"]
    )


@lru_cache(maxsize=1)
def load_energy_claims() -> tuple[Claim, ...]:
    """The paper's claims of energy, and those against a quantised twin, once for each estimator that is not its own.

    A quantity of conf/energy_claims.yaml names a system and one of three networks: network, plain or twin.
    """
    raw = yaml.safe_load((config_dir() / "energy_claims.yaml").read_text())

    def of(one: Mapping[str, Any], key: str) -> Claim:
        ours = {
            name: Quantity(system=of["system"], measure=f"{CARD}{key}/{of['network']}")
            for name, of in one["ours"].items()
        }
        statement = f"{one['statement']} By {key.replace('_', ' ')}."
        return Claim(f"{one['id']}-{key}", one["section"], statement, ours, one["holds"], {})

    keys = {True: (KEYS[0], *KEYS[2:]), False: KEYS[2:]}
    return tuple(of(one, key) for one in raw["claims"] for key in keys[one["paper_rule"]])


def check_claims(results: Results, energy: bool = False) -> list[Verdict]:
    """Every claim on whatever runs of the selection exist; with `energy` those of the other estimators."""
    if energy:
        return [check_energy_claim(claim, results) for claim in load_energy_claims()]
    return [check_claim(claim, results) for claim in load_claims()]


def check_energy_claim(claim: Claim, results: Results) -> Verdict:
    """One of `load_energy_claims`; open where runs without an energy card leave open which values fire together."""
    verdict = check_claim(claim, results)
    for together in ("always", "never"):
        ours = {name: replace(one, measure=f"{one.measure}/{together}") for name, one in claim.ours.items()}
        if check_claim(replace(claim, ours=ours), results).status != verdict.status:
            reason = "depends on which values fire together, which a run without an energy card does not tell"
            return replace(verdict, status="not run", numbers={}, reason=reason)
    return verdict


def check_claim(claim: Claim, results: Results) -> Verdict:
    """Mean over the seeds that all of its quantities have; not run as long as there is no such seed."""
    values: dict[str, dict[int, float]] = {name: {} for name in claim.ours}
    used: dict[tuple[str, int], list[SelectedRun]] = {}
    missing: dict[str, None] = {}
    reason = ""
    for name, quantity in claim.ours.items():
        for seed in results.selection.seeds:
            try:
                value, used[name, seed] = measured(quantity, results, seed)
            except ConfigError as error:  # what this scale cannot run
                reason = error.what
                break
            lacking = [run for run in used[name, seed] if run.result is None]
            missing |= dict.fromkeys(run.wanted.command(results.selection) for run in lacking)
            if value is not None:
                values[name][seed] = value
    common = set.intersection(*(set(by_seed) for by_seed in values.values()))
    if common:  # means over other seeds for each quantity would compare seeds, not systems
        values = {
            name: {seed: value for seed, value in by_seed.items() if seed in common} for name, by_seed in values.items()
        }
    numbers = {name: fmean(by_seed.values()) for name, by_seed in values.items() if by_seed}
    runs = {run.run.id: None for name, by_seed in values.items() for seed in by_seed for run in used[name, seed]}
    status: Status = "not run"
    if len(numbers) == len(claim.ours):
        status = "held" if evaluate(claim.holds, numbers) else "failed"
    return Verdict(
        claim.id,
        claim.section,
        claim.statement,
        status,
        claim.holds,
        numbers,
        claim.paper,
        tuple(runs),
        tuple(missing),
        reason,
    )


# --- the numbers that claims compare, at one seed ---


def measured(quantity: Quantity, results: Results, seed: int) -> tuple[float | None, list[SelectedRun]]:
    """The value at one seed, None while a run of it is missing, and its runs."""
    runs = runs_of(quantity, results, seed)
    of_runs = [run.result for run in runs if run.result is not None]
    if not runs or len(of_runs) < len(runs):
        return None, runs
    return _value(quantity, of_runs), runs


def runs_of(quantity: Quantity, results: Results, seed: int) -> list[SelectedRun]:
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


def _value(quantity: Quantity, of_runs: Sequence[Result]) -> float | None:
    name = quantity.measure
    if quantity.metric:
        return of_runs[0].metrics.get(quantity.metric)
    if name in AVERAGES:
        return glue_mean(load_table(quantity.table), {one.task: AVERAGES[name](one) for one in of_runs})
    if name in WIDTHS:
        losses = [float(one.metrics["loss"] or 0.0) for one in sorted(of_runs, key=lambda one: one.parameters)]
        falls = all(wide < narrow for narrow, wide in itertools.pairwise(losses))
        return float(falls) if name == "losses_fall" else sum(losses)
    if name.startswith(CARD):
        return _of_cards(name.removeprefix(CARD), of_runs)
    if name not in SINGLE:
        raise ConfigError(
            f"measure {name!r} of a claim is not known", f"known: {', '.join((*SINGLE, *AVERAGES, *WIDTHS))}"
        )
    values = [SINGLE[name](one) for one in of_runs]
    return None if None in values else fmean(value for value in values if value is not None)


def _of_cards(name: str, of_runs: Sequence[Result]) -> float | None:
    """What an estimator says of a network, in mJ: mean over runs; None where it cannot be said of one of them."""
    key, network, together = (*name.split("/"), "independent")[:3]
    values = []
    for one in of_runs:
        line = next((line for line in estimates_of(one, together) if line.key == key), None)  # type: ignore[arg-type]
        if line is None:
            return None
        values.append(float(getattr(line, network)))
    return fmean(values)


def glue_mean(table: PaperTable, metrics: Mapping[str, Metrics]) -> float | None:
    """The mean of nine numbers with a table's metrics, from the metrics of each task."""
    scores = [metrics[column.task].get(column.metric or next(iter(metrics[column.task]))) for column in table.averaged]
    return None if None in scores else fmean(score for score in scores if score is not None)


def _linears_percent(per_site: Mapping[str, float]) -> float | None:
    rates = [rate for _, _, rate in linear_rates(per_site)]
    return 100 * fmean(rates) if rates else None


CARD = "card/"  # begins a measure that an estimator of the energy card gives: card/memory_16_int8/twin
#: measures that are averages over GLUE: of the runs' own scores, and of the constant predictor's
AVERAGES: dict[str, Callable[[Result], Metrics]] = {
    "avg": lambda result: result.metrics,
    "constant": lambda result: result.constant_predictor,
}
#: measures over the widths of figure 4: True where every wider model has a lower loss, and the losses' sum
WIDTHS = ("losses_fall", "loss_sum")
#: measures of one run; firing rates in percent, verdicts 1 where spike-driven
SINGLE: dict[str, Callable[[Result], float | None]] = {
    "energy_fp32": lambda result: result.energy_mj.fp32,
    "energy_fp16": lambda result: result.energy_mj.fp16,
    "firing": lambda result: None if result.firing_rate.mean is None else 100 * result.firing_rate.mean,
    "firing_linears": lambda result: _linears_percent(result.firing_rate.per_site),
    "firing_before": lambda result: _linears_percent(result.firing_rate.initial_per_site),
    "fully": lambda result: float(result.spike_driven.verdict == "fully"),
    "decoding_fully": lambda result: float(result.spike_driven.decoding == "fully"),
}


# --- what has to hold between them ---

_OPERATIONS: dict[type, Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq},
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


def evaluate(text: str, numbers: Mapping[str, float]) -> Any:
    """Arithmetic and comparisons of named numbers; nothing else of Python is let in."""

    def walk(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return walk(body)
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name) if name in numbers:
                return numbers[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](walk(left), walk(right))
            case ast.BoolOp(op=ast.And(), values=values):
                return all(walk(value) for value in values)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                sides = [walk(left), *map(walk, rest)]
                pairs = zip(sides[:-1], ops, sides[1:], strict=True)
                return all(_OPERATIONS[type(op)](a, b) for a, op, b in pairs)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(walk, args))
        raise ConfigError(f"a claim cannot say {ast.unparse(node)!r}", "arithmetic and comparisons of its quantities")

    return walk(ast.parse(text, mode="eval"))
