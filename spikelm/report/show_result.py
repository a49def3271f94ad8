"""One result as a table a person can read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.kinds import data_unit
from spikelm.catalog.quantities import bits_text, duration, gigabytes, millijoules, rate_text, rows_text, token_energy
from spikelm.runs.converted_blocks import ConvertedBlock, converted_blocks
from spikelm.store.result import Conversion, Result, number_text

NAMES = {
    "accuracy": "accuracy, %",
    "f1": "F1, %",
    "matthews": "Matthews correlation x 100",
    "pearson": "Pearson correlation x 100",
    "spearman": "Spearman correlation x 100",
    "mlm_accuracy": "masked word accuracy, %",
    "nsp_accuracy": "next sentence accuracy, %",
    **{f"rouge{kind}": f"ROUGE-{kind}, F1 %" for kind in ("1", "2", "L", "Lsum")},
    "exact_match": "exact match, %",
    "entity_accuracy": "entity accuracy, %",
    "bleu": "BLEU (sacreBLEU)",
    "chrf": "chrF (sacreBLEU)",
}
SHOWN = 2  # samples of generated text at the end of a run; spikelm-report run shows all
CUT = 400  # characters of an article


def show_result(result: Result, directory: Path, console: Console, samples: int = SHOWN) -> None:
    """Score against the constant predictor, energy against the ANN, firing rate, audit, where it is."""
    title = f"{result.task} · {result.system} · scale {result.scale}, source {result.source.name}"
    console.print(title, style="table.title", highlight=False, markup=False, soft_wrap=True)  # on one line
    table = Table()
    table.add_column("measure")
    table.add_column("this run", justify="right")
    table.add_column("compared with", justify="right")
    for row in [*_score_rows(result), *_energy_rows(result), *_firing_rows(result), *_text_rows(result)]:
        table.add_row(*row)
    verdict, what = result.spike_driven, _audited(result)
    if verdict.decoding is not None:
        table.add_row("spike-driven, generating from the cache", verdict.decoding, "")
    table.add_row(f"spike-driven {what}", verdict.verdict, f"real-valued: {_short(verdict.real_valued)}")
    table.add_row("parameters", f"{result.parameters:,}", "")
    table.add_row("time, peak memory", duration(result.seconds), gigabytes(result.peak_memory_mb / 1e3))
    console.print(table)
    if result.conversion is not None:
        _show_conversion(result, result.conversion, console)
    unit = data_unit(result.config.task.kind)
    console.print(f"{unit}: {rows_text(result.source.rows, result.source.available)}", soft_wrap=True, highlight=False)
    for name, note in result.metric_notes.items():
        console.print(f"  {name}: {note}", highlight=False, markup=False, soft_wrap=True)
    for sample in result.samples[:samples]:
        console.print()
        for part, words in sample:
            text = words if len(words) <= CUT else f"{words[:CUT]}…"
            console.print(f"  {part:<10} {text}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"in {directory}", soft_wrap=True, highlight=False)


def _score_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    before = result.conversion.plain_metrics if result.conversion else {}
    # A general distillation's loss is no loss of the pretraining that its teacher comes from.
    teacher = {} if before or result.config.task.kind == "general" else result.teacher_metrics
    beside = {"constant predictor": result.constant_predictor, "teacher": teacher, "before": before}
    for name, value in result.metrics.items():
        others = [f"{number_text(scores[name])} {whose}" for whose, scores in beside.items() if name in scores]
        yield readable(name), number_text(value), ", ".join(others)


def _show_conversion(result: Result, conversion: Conversion, console: Console) -> None:
    """One row for each block: its hidden state beside the plain model's, and what its neurons do."""
    title = "conversion, block by block"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("block", no_wrap=True)
    neurons = ("neurons", "the largest", "saturated", "spikes")
    for column in ("cosine", "error", *(neurons if conversion.sites else ())):
        table.add_column(column, justify="right", no_wrap=True)
    for block in converted_blocks(result):
        table.add_row(*_block_cells(block, bool(conversion.sites)))
    console.print(table)
    meaning = "cosine and error |y - x| / |x|: of a block's hidden state to the plain model's"
    if conversion.sites:
        meaning += ", of what its neurons give to what they read; saturated: values too large for their neuron; "
        meaning += "spikes: of a value"
    console.print(f"  {meaning}", highlight=False, soft_wrap=True)
    for line in conversion_lines(conversion):
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def _block_cells(block: ConvertedBlock, neurons: bool) -> list[str]:
    """A block's hidden state, and of its neurons errors, saturated values and spikes."""
    cells = [block.block, _digits(block.cosine, 4), _percent(block.error)]
    if not neurons:
        return cells
    largest = f"{_percent(block.largest)} {block.largest_at}" if block.largest_at else "–"
    return [*cells, _percent(block.neurons), largest, _percent(block.saturated), _digits(block.spikes, 2)]


def conversion_lines(conversion: Conversion) -> Iterator[str]:
    """How it was made, and whether the network over time came to the same."""
    seen = f"{conversion.rows:,} rows in {conversion.batches} batches set the amplitudes"
    yield seen if conversion.rows else "no data was needed to set amplitudes"
    if conversion.rotation != "none":
        yield (
            f"rotation: {conversion.rotation}, {conversion.rotation_additions:,} additions a token at run time, "
            "which the energy leaves out"
        )
    if conversion.settled is not None:
        spikes = f"{conversion.settled.spikes_per_value:.2f} spikes a value, corrections included"
        yield f"over time: {conversion.settled.sentence}; {spikes}"


def _digits(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _energy_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    yield "bits of weights, activations", f"{bits_text(result.bits.weights)}, {bits_text(result.bits.activations)}", ""
    ann = dict(result.energy_ann_mj.items())
    for precision, energy in result.energy_mj.items():
        if energy is None:
            continue
        other = ann[precision]
        times = f", {other / energy:.1f}x" if other and energy else ""
        against = f"{millijoules(other)} ANN{times}" if result.spikes and other else ""
        yield f"energy {precision}, one inference", millijoules(energy), against


def _firing_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    rate = result.firing_rate
    if rate.mean is None:
        return
    initial = rate.initial_mean_over_sites
    before = "" if initial is None else f"{rate_text(initial, rate.unfolds)} site mean before training"
    what = "spikes" if rate.unfolds else "firing rate"
    yield f"{what}, mean over sites", rate_text(rate.mean_over_sites or 0.0, rate.unfolds), before
    yield f"{what}, weighted by MACs", rate_text(rate.mean, rate.unfolds), ""


def _audited(result: Result) -> str:
    """The part of the model that the audit's verdict is about."""
    if result.energy_token:
        return "decoder"
    return "encoder and decoder" if result.energy_detail else "encoder"


def _text_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    """What a token of a language model costs, or a generated text."""
    if token := result.energy_token:
        if token.fp32 is not None:
            against = f"{token_energy(token.ann_fp32)} ANN" if result.spikes else ""
            yield f"energy fp32, one token of {token.tokens}", token_energy(token.fp32), against
        yield "LM head fp32 a token, real-valued, apart", token_energy(token.lm_head_fp32), ""
    if result.energy_detail is None:
        return
    text = result.energy_detail.generated
    lengths = f"{text.mean_source:.0f} tokens read, {text.mean_target:.0f} written, {text.beams} beams"
    against = f"{millijoules(text.ann_fp32)} ANN" if result.spikes else ""
    yield "energy fp32, one generated text", millijoules(text.fp32), against
    yield "", "", lengths
    yield "LM head fp32, real-valued, apart", millijoules(result.energy_detail.lm_head_fp32), ""


def readable(name: str) -> str:
    """A metric in words."""
    for suffix, words in (("_mm", ", mismatched"), ("_test", ", test")):
        if name.endswith(suffix):
            return readable(name.removesuffix(suffix)) + words
    return NAMES.get(name, name.replace("_", " "))


def _short(modules: list[str]) -> str:
    """Modules by name, those of an encoder, a decoder or the blocks of a language model as one."""
    names = [re.sub(r"\.(encoder|decoder|layers|h|blocks)\..*", r".\1", module) for module in modules]
    return ", ".join(dict.fromkeys(names)) or "nothing"
