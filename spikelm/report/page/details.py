"""What the page of one run shows, block by block, for its template."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from spikelm.catalog.counts import ProductCount
from spikelm.catalog.energy import PICOJOULE, Term, site_rate
from spikelm.catalog.estimators import ESTIMATORS, Estimate
from spikelm.catalog.kinds import data_unit
from spikelm.catalog.quantities import bits_text, duration, gigabytes, rate_text, rows_text, token_energy
from spikelm.config.recorded import to_record
from spikelm.errors import SpikeLMError
from spikelm.measure.workload import measured_terms
from spikelm.report.energy_cards import counts_of, estimates_of
from spikelm.report.page.better import Better, better
from spikelm.report.page.charts import CurveChart, Line
from spikelm.report.page.entries import Record
from spikelm.report.page.numbers import energy_text, rounded, when
from spikelm.report.page.series import Curve, read_curves
from spikelm.report.show_result import conversion_lines, readable
from spikelm.runs.converted_blocks import ConvertedBlock, converted_blocks
from spikelm.store.result import FiringRate, Result, Sample, SpikeDriven

SITE = re.compile(r"(.*?)\.?(\d+)\.([^.]+)$")
SAMPLES = 20  # of generated text; result.json has them all
TRACEBACK = 6000  # characters from its end


@dataclass(frozen=True)
class Score:
    """A metric beside the same of the constant predictor and of the teacher, where there are such."""

    name: str
    value: float | None
    floor: float | None
    teacher: float | None
    better: Better


@dataclass(frozen=True)
class Measure:
    """A number in words, and what it is compared with."""

    name: str
    value: str
    against: str = ""


@dataclass(frozen=True)
class SiteCell:
    """Firing rate of a site after training, and before."""

    rate: float
    before: float | None
    heat: int  # colour, 0 to 10


@dataclass(frozen=True)
class FiringGrid:
    """Sites of one stack (encoder, decoder): layers in rows, kinds of site in columns."""

    stack: str
    kinds: list[str]
    layers: dict[str, dict[str, SiteCell]]

    @property
    def before(self) -> bool:
        """Whether rates before training are there as well."""
        return any(cell.before is not None for row in self.layers.values() for cell in row.values())


@dataclass(frozen=True)
class EnergyLine:
    """One kind of matmul over all layers."""

    name: str
    macs: int
    mj: float
    ann: float
    rate: float | None  # mean over its sites
    share: float = 0.0


@dataclass(frozen=True)
class EnergyTable:
    """Energy by kind of matmul."""

    lines: list[EnergyLine]
    total: float


@dataclass(frozen=True)
class CardBlock:
    """One block of a model under each estimator, in mJ, and its products."""

    name: str
    mj: list[float]
    products: list[tuple[str, str, int, int]]  # module, what it reads, dense and active operations of one inference


@dataclass(frozen=True)
class ShownCard:
    """The estimators next to each other, and each block by itself; `seen` says where the counts are from."""

    lines: list[Estimate]
    blocks: list[CardBlock]
    keys: list[str]
    seen: str


@dataclass(frozen=True)
class RunPage:
    """Every block of the page; one that a run does not have is empty."""

    scores: list[Score] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    curves: list[CurveChart] = field(default_factory=list)
    firing: list[FiringGrid] = field(default_factory=list)
    energy: EnergyTable | None = None
    conversion: list[ConvertedBlock] = field(default_factory=list)
    conversion_lines: list[str] = field(default_factory=list)  # how it was made
    card: ShownCard | None = None
    audit: SpikeDriven | None = None
    samples: list[Sample] = field(default_factory=list)
    notes: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)  # role -> run id
    config: Mapping[str, Any] = field(default_factory=dict)  # dotted keys
    about: Mapping[str, str] = field(default_factory=dict)
    traceback: str = ""


def details(record: Record) -> RunPage:
    """The page of a run."""
    page = RunPage(
        curves=_curves(read_curves(record.directory / "metrics.csv")),
        config=flatten(to_record(record.config)) if record.config else {},
        traceback=_tail(record.directory / "traceback.txt"),
    )
    if (result := record.result) is None:
        return page
    return replace(
        page,
        curves=[*page.curves, *_block_curves(converted_blocks(result))],
        scores=_scores(result),
        measures=list(_measures(result)),
        firing=_firing(result.firing_rate),
        energy=energy_terms(result),
        conversion=converted_blocks(result),
        conversion_lines=list(conversion_lines(result.conversion)) if result.conversion else [],
        card=_card(result),
        audit=result.spike_driven,
        samples=result.samples[:SAMPLES],
        notes=result.metric_notes,
        needs=result.needs,
        about=_about(result),
    )


def _scores(result: Result) -> list[Score]:
    floor, teacher = result.constant_predictor, result.teacher_metrics
    return [
        Score(readable(name), value, floor.get(name), teacher.get(name), better(name))
        for name, value in result.metrics.items()
    ]


def _millijoules(value: float) -> str:
    """An energy with the digits that lists and tables show of it."""
    return f"{energy_text(value)} mJ"


def _measures(result: Result) -> Iterator[Measure]:
    """Energy against the ANN, firing, bits, size and cost."""
    ann, rate = dict(result.energy_ann_mj.items()), result.firing_rate
    for precision, energy in result.energy_mj.items():
        if energy is not None:
            beside = ann[precision]
            against = ""
            if result.spikes and beside and energy:
                against = f"{_millijoules(beside)} as ANN, {beside / energy:.1f} times as much"
            yield Measure(f"energy {precision}, one inference", _millijoules(energy), against)
    if rate.mean is not None:
        initial = rate.initial_mean_over_sites
        before = "" if initial is None else f"{rate_text(initial, rate.unfolds)} mean over sites before training"
        what = "spikes" if rate.unfolds else "firing rate"
        yield Measure(f"{what}, weighted by MACs", rate_text(rate.mean, rate.unfolds), before)
    bits = f"{bits_text(result.bits.weights)}, {bits_text(result.bits.activations)}"
    yield Measure("bits of weights, activations", bits)
    if result.energy_detail:
        text = result.energy_detail.generated
        lengths = f"{text.mean_source:.0f} tokens read, {text.mean_target:.0f} tokens written, {text.beams} beams"
        against = f"{_millijoules(text.ann_fp32)} as ANN; {lengths}"
        yield Measure("energy fp32, one generated text", _millijoules(text.fp32), against)
    if (token := result.energy_token) and token.fp32 is not None:
        head = f"{token_energy(token.lm_head_fp32)} of the LM head apart"
        against = f"{token_energy(token.ann_fp32)} as ANN; {head}"
        yield Measure(f"energy fp32, one token of {token.tokens}", token_energy(token.fp32), against)
    yield Measure("parameters", f"{result.parameters:,}")
    yield Measure("steps", f"{result.steps:,}")
    yield Measure("time", duration(result.seconds))
    yield Measure("peak memory", gigabytes(result.peak_memory_mb / 1e3))


def _curves(curves: Mapping[str, Curve]) -> list[CurveChart]:
    """One chart per family: each loss, the learning rate, the dev scores; firing rates by kind of site.

    A single value is no curve: it is among the scores.
    """
    families: dict[str, list[tuple[str, Curve]]] = {}
    for name, curve in curves.items():
        first, _, rest = name.partition("/")
        if first == "firing" or curve.count < 2:
            continue
        alone = first == "train" or "loss" in rest
        families.setdefault(name if alone else f"{first} scores", []).append((rest or name, curve))
    order = sorted(
        families, key=lambda family: (family != "train/loss", "loss" not in family, family == "train/lr", family)
    )
    charts = []
    for family in order:
        shown = families[family][:6]
        logged, size = max(curve.count for _, curve in shown), max(curve.size for _, curve in shown)
        about = f"{logged:,} values" + (f", each point the mean of {size}" if size > 1 else "")
        charts.append(CurveChart(family, about, [_line(name, curve.steps, curve.values) for name, curve in shown]))
    return [*charts, *_site_curves(curves)]


def _line(name: str, steps: Sequence[float], values: Sequence[float]) -> Line:
    return Line(name, list(map(rounded, steps)), list(map(rounded, values)))


def _site_curves(curves: Mapping[str, Curve]) -> list[CurveChart]:
    kinds: dict[str, dict[float, list[float]]] = {}
    for name, curve in curves.items():
        if name.startswith("firing/") and curve.count > 1:
            at = kinds.setdefault(name.rpartition(".")[2], {})
            for step, value in zip(curve.steps, curve.values, strict=True):
                at.setdefault(step, []).append(value)
    if not kinds:
        return []
    means = {kind: sorted((step, fmean(values)) for step, values in at.items()) for kind, at in kinds.items()}
    lines = [_line(kind, [s for s, _ in found], [v for _, v in found]) for kind, found in list(means.items())[:6]]
    return [CurveChart("firing rate by kind of site", "mean over layers", lines)]


def _block_curves(blocks: Sequence[ConvertedBlock]) -> list[CurveChart]:
    """Cosine and error of the hidden states that leave each block of a conversion, to the plain model's."""
    both = {"cosine": [block.cosine for block in blocks], "error": [block.error for block in blocks]}
    lines = []
    for name, values in both.items():
        known = [(float(number), value) for number, value in enumerate(values) if value is not None]
        if known:
            lines.append(_line(name, [number for number, _ in known], [value for _, value in known]))
    return [CurveChart("conversion", "hidden states beside the plain model's", lines, axis="block")] if lines else []


def _firing(rate: FiringRate) -> list[FiringGrid]:
    """One grid per stack (encoder, decoder)."""
    grids: dict[str, dict[str, dict[str, SiteCell]]] = {}
    for site, value in rate.per_site.items():
        match = SITE.match(site)
        stack, layer, kind = match.groups() if match else ("other", "", site)
        cell = SiteCell(value, rate.initial_per_site.get(site), min(10, max(0, round(10 * value))))
        grids.setdefault(stack, {}).setdefault(layer, {})[kind] = cell
    return [
        FiringGrid(stack, list(dict.fromkeys(kind for row in layers.values() for kind in row)), layers)
        for stack, layers in grids.items()
    ]


def energy_terms(result: Result) -> EnergyTable | None:
    """Energy by kind of matmul, summed over layers, if the terms add up to what the result says; else None."""
    if (ours := result.energy_mj.fp32) is None:
        return None
    config, rates = result.config, result.firing_rate.per_site
    try:
        terms = measured_terms(config, spiking=config.fires)
        lines = _by_name(terms, rates if config.fires else None, config.time_steps)
    except (SpikeLMError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None  # of an architecture that is not broken down by matmul
    total = sum(line.mj for line in lines)
    if not lines or not math.isclose(total, ours, rel_tol=1e-6):
        return None
    return EnergyTable([replace(line, share=line.mj / total if total else 0.0) for line in lines], total)


def _by_name(terms: Sequence[Term], rates: Mapping[str, float] | None, T: int) -> list[EnergyLine]:
    """MACs, mean rate and mJ of each matmul over all layers; without rates it is an ANN, whose MACs multiply."""
    by_name: dict[str, list[Term]] = {}
    for term in terms:
        by_name.setdefault(term.name, []).append(term)
    mac, ac = PICOJOULE["fp32"]
    lines = []
    for name, same in by_name.items():
        fires = [site_rate(one.site, rates) if one.site is not None and rates is not None else None for one in same]
        costs = [mac if rate is None else ac * T * rate for rate in fires]
        of_sites = [rate for rate in fires if rate is not None]
        lines.append(
            EnergyLine(
                name,
                macs=sum(term.macs for term in same),
                mj=sum(term.macs * cost * 1e-9 for term, cost in zip(same, costs, strict=True)),
                ann=sum(term.macs * mac * 1e-9 for term in same),
                rate=fmean(of_sites) if of_sites else None,
            )
        )
    return lines


def _card(result: Result) -> ShownCard | None:
    """The energy card: of the run itself, or expected from its sizes and rates."""
    counts = counts_of(result)
    if counts is None:
        return None
    rows = counts.rows
    blocks = [
        CardBlock(
            block,
            [one.mj(part, "network") for one in ESTIMATORS],
            [(_product_name(one), one.reads, one.macs // rows, one.active // rows) for one in part.products],
        )
        for block, part in counts.by_block().items()
    ]
    watched = f"counted while {counts.rows} rows ran"
    seen = watched if result.energy_card else "expected from sizes and firing rates: the run has no card"
    return ShownCard(estimates_of(result), blocks, [f"{one.name}, {one.arithmetic.name}" for one in ESTIMATORS], seen)


def _product_name(one: ProductCount) -> str:
    module = one.module.removeprefix(f"{one.block}.") or one.module
    return module if one.kind == "linear" or one.kind in module else f"{module}, {one.kind}"


def _about(result: Result) -> dict[str, str]:
    """Where the numbers come from: data, seed, code, libraries."""
    facts = {
        "finished": f"{when(result.finished_at)} UTC",
        data_unit(result.config.task.kind): rows_text(result.source.rows, result.source.available),
        "hash of the data": result.source.content_hash,
        "reported epoch": result.select,
        "recipe": result.recipe,
        "seed": result.seed,
        "commit": result.git_commit,
        "libraries": ", ".join(f"{name} {version}" for name, version in result.versions.items()),
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys and their values, without what only describes valid values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            flat |= {} if key == "valid" else flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _tail(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-TRACEBACK:]
    except OSError:
        return ""
