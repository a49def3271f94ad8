"""From a table's YAML and the runs of a selection to the table as data."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean
from typing import NamedTuple

from spikelm.catalog.estimators import KEYS
from spikelm.catalog.kinds import LM, kind_of
from spikelm.catalog.metric_names import lower_is_better
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError, DataError
from spikelm.report.query.selection import Results, SelectedRun, Selection, Wanted
from spikelm.report.query.settings import spike_levels, virtual_steps
from spikelm.report.tables.cells import SETTINGS, Cell, Line, RunRef, TableData
from spikelm.report.tables.paper_table import AUDITED, GLUE, Column, Footnote, PaperTable, Printed, Row
from spikelm.store.result import Result

PAPER_SCALE = "paper"  # the scale whose models have the paper's sizes
#: the tasks with texts to generate
TEXTS = ("sum/xsum", "sum/cnn_dm", "mt/wmt16_enro")
#: behind the point, of measures and metrics that the paper does not print
DIGITS = {"events": 2, "seconds": 0, "energy_token": 0, "perplexity": 2, "bits_per_byte": 3}
NANO = 1e6  # nanojoules in a millijoule: the energy of one token of a small model


def build_table(table: PaperTable, results: Results, ours_only: bool = False) -> TableData:
    """Every cell of a table at the selection's scale and source, over its seeds.

    `ours_only`: without the paper's numbers and without rows that were not run. A table of our own has no numbers of a
    paper in any case, and its rows that were not run say so.
    """
    selection = results.selection
    alone = ours_only or table.own
    table, impossible = at_scale(table, results)
    same_size = of_the_papers_size(selection)
    footnotes: list[str] = []
    lines = []
    for row in table.rows:
        values = [row_values(table, row, results, seed) for seed in selection.seeds]
        if ours_only and not any(of_seed.get(column.name) for of_seed in values for column in table.columns):
            continue
        cells: dict[str, Cell] = {}
        for column in table.columns:
            remarks = [note.text for note in table.footnotes if _meant(note, row, column, alone)]
            if column.name == "avg" and table.chosen is None and not alone:
                remarks += [wrong] if (wrong := misprinted_average(table, row)) else []
            places = [_place(footnotes, text) for text in dict.fromkeys(remarks)]
            cell = _cell(column, row, [of_seed.get(column.name) for of_seed in values], places)
            comparable = same_size or "energy" not in column.measure
            cells[column.name] = replace(cell, comparable=comparable, paper=None if alone else cell.paper)
        if table.own and not any(cell.ours for cell in cells.values()):
            first = table.columns[0].name
            cells[first] = replace(cells[first], not_run=True)
        lines.append(Line(row.ours or row.name if alone else row.name, row.system, cells))
    notes = [*_given_weights(table, results), *([] if ours_only else impossible), *table.notes]
    if not alone:
        notes = [*_given_weights(table, results), *impossible, *table.notes, *table.paper_notes]
        notes += _not_compared(lines, selection.scale)
    lowest = [column.name for column in table.columns if _lowest(column, table, results)]
    few = [] if table.chosen is None else ["+".join(task.rpartition("/")[2] for task in table.chosen)]
    return TableData(
        id=table.id,
        title=table.title,
        scale=selection.scale,
        source=selection.source_name,
        where=selection.where,
        columns={column.name: column.heading for column in table.columns},
        lines=_with_best(table, lines, {row.system for row in table.rows if _takes_part(table, row, results)}, lowest),
        footnotes=footnotes,
        notes=notes,
        computed_from=computed_from(table, results),
        missing=[wanted.command(selection) for wanted in table_runs(table, results) if not _finished(results, wanted)],
        name="-".join([file_name(table.id), selection.suffix, *few, *(["ours"] if ours_only else [])]),
        ours_only=alone,
        lowest=lowest,
    )


def file_name(id: int | str) -> str:
    """What the files of a table are called: table3, table-field."""
    return f"table{id}" if isinstance(id, int) else f"table-{id}"


def of_the_papers_size(selection: Selection) -> bool:
    """Whether its models are as large as the paper's, so that energies can be compared."""
    return selection.scale == PAPER_SCALE and not any(one.startswith("backbone") for one in selection.overrides)


def _not_compared(lines: Sequence[Line], scale: str) -> list[str]:
    """Why energies have no difference, where they have none."""
    cells = [cell for line in lines for cell in line.cells.values()]
    if not any(cell.ours and cell.paper is not None and not cell.comparable for cell in cells):
        return []
    sizes = f"the paper's are of BERT_base and BART_base, ours of models of another size (scale {scale})"
    return [f"Energies have no difference: {sizes}."]


def _takes_part(table: PaperTable, row: Row, results: Results) -> bool:
    """Whether a row can be the best of a column: a plain model is what the others are measured against."""
    return bool(row.system) and results.find(str(row.system), table.row_tasks(row)[0]).config.converted


def _lowest(column: Column, table: PaperTable, results: Results) -> bool:
    """Whether the best of a column is its lowest value: of energies, and of metrics such as perplexity."""
    if not column.score:
        return "energy" in column.measure
    systems = [str(row.system) for row in table.rows if column.task in table.row_tasks(row)]
    if not systems:
        return False
    task = results.find(systems[0], column.task).config.task
    metric = column.metric or task.metrics[0]
    return any(lower_is_better(metric.removesuffix(suffix)) for suffix in ("", *task.splits.values()))


def _with_best(
    table: PaperTable, lines: Sequence[Line], systems: Collection[str | None], lowest: Collection[str]
) -> list[Line]:
    """The lines with the best of each column marked, as printed: equal ones alike, one that is alone not at all."""
    best: dict[str, float] = {}
    for column in table.columns:
        if not (column.score or column.measure == "avg" or "energy" in column.measure):
            continue  # T, bits and words have no best
        found = {line.system: _printed(line.cells[column.name]) for line in lines if line.system in systems}
        numbers = [number for number in found.values() if number is not None]
        if len(numbers) > 1:
            best[column.name] = min(numbers) if column.name in lowest else max(numbers)

    def marked(line: Line) -> dict[str, Cell]:
        return {
            name: replace(cell, best=line.system in systems and name in best and _printed(cell) == best[name])
            for name, cell in line.cells.items()
        }

    return [replace(line, cells=marked(line)) for line in lines]


def _printed(cell: Cell) -> float | None:
    return None if cell.mean is None else float(f"{cell.mean:.{cell.digits}f}")


def table_runs(table: PaperTable, results: Results) -> list[Wanted]:
    """The runs that a table is made of, each once."""
    table, _ = at_scale(table, results)
    wanted = [
        results.find(str(row.system), task, seed).wanted
        for row in table.rows
        if row.system
        for task in table.row_tasks(row)
        for seed in results.selection.seeds
    ]
    return list(dict.fromkeys(wanted))


def at_scale(table: PaperTable, results: Results) -> tuple[PaperTable, list[str]]:
    """The table as far as the selection's scale can run it, and what it cannot.

    Where the weights are given nothing is pretrained: measures are then of the fine-tuned runs.
    """
    rows, notes = [], []
    for row in table.rows:
        row, error = _runnable(table, row, results)
        if error:
            notes.append(f"{row.name} cannot be run at scale {results.selection.scale}: {error.what}.")
            row = replace(row, system=None)
        rows.append(row)
    return replace(table, rows=rows), list(dict.fromkeys(notes))


@dataclass(frozen=True)
class RefusedRow:
    """A row that a selection cannot run: its tables, the reason, and what makes it runnable."""

    name: str
    tables: tuple[int | str, ...]
    what: str
    fix: str


def refused_rows(tables: Sequence[PaperTable], results: Results) -> list[RefusedRow]:
    """The rows of all tables that cannot be run, each once."""
    found: dict[tuple[str, str], RefusedRow] = {}
    for table in tables:
        for row in table.rows:
            _, error = _runnable(table, row, results)
            if error:
                known = found.get((row.name, error.what))
                within = (*(known.tables if known else ()), table.id)
                found[row.name, error.what] = RefusedRow(row.name, tuple(dict.fromkeys(within)), error.what, error.fix)
    return list(found.values())


def _runnable(table: PaperTable, row: Row, results: Results) -> tuple[Row, ConfigError | DataError | None]:
    """A row as the selection can run it, or why it cannot."""
    error = _refused(row, table.row_tasks(row), results)
    if error and not row.tasks and table.row_tasks(row) == ["pretrain"]:
        tuned = [f"glue/{task}" for task in GLUE]
        if possible := tuple(task for task in tuned if not _refused(row, [task], results)):
            return replace(row, tasks=possible), None
    return row, error


def _refused(row: Row, tasks: Sequence[str], results: Results) -> ConfigError | DataError | None:
    """Why a row cannot be run; None if it can."""
    try:
        for task in tasks:
            results.find(str(row.system), task)
    except ConfigError as error:
        return error
    except DataError as error:  # a task without files; of a table's own columns it is the user's to say which (--tasks)
        if len(tasks) > 1:
            raise
        return error
    return None


def misprinted_average(table: PaperTable, row: Row) -> str:
    """What is to be said where the mean of the printed entries is not the printed average; empty where it is."""
    printed = row.paper.get("avg")
    entries = [float(value) for c in table.columns if c.score and (value := row.paper[c.name]) is not None]
    if printed is None or not entries or abs(fmean(entries) - float(printed)) <= 0.051:
        return ""
    return f"The paper prints {printed}; its {len(entries)} entries average {fmean(entries):.2f}."


def computed_from(table: PaperTable, results: Results) -> str:
    """Where the measures of a table come from."""
    configs = _configs(table, results)
    names = {column.measure for column in table.columns if not column.task}
    if not configs:
        return ""
    if names & set(AUDITED):
        return (
            "Computed from the audits of finished runs (every matmul of a forward pass, seen on its way to the "
            "backend) and from what the system was run on."
        )
    if names & {"energy_fp32", "energy_fp16", "firing", "events"}:
        measure = next(iter(configs.values())).measure
        samples = f"measured on {measure.samples} samples of {measure.length} tokens"
        if all(one.skips_pretraining for one in configs.values()):
            return (
                f"Energy and firing rates are {samples} with the model that each system's own run has trained, each "
                "site with its own rate: nothing is pretrained here."
            )
        others = list(dict.fromkeys(c.system.title for c in configs.values() if not has_pretraining(c)))
        which = f"; of {', '.join(others)}, which have none of their own, the fine-tuned runs" if others else ""
        return (
            f"Energy and firing rates are {samples} with the pretrained model of each system, each site with its own "
            f"rate{which}."
        )
    return ""


def _given_weights(table: PaperTable, results: Results) -> list[str]:
    """Which rows start from given weights, and from which: one note for each of the weights."""
    configs = _configs(table, results)
    rows_of: dict[tuple[str, bool], list[str]] = {}
    for row in table.rows:
        if row.system and (path := configs[row.system].backbone.path):
            rows_of.setdefault((path, configs[row.system].pretrains), []).append(row.name)
    notes = []
    for (path, pretrains), rows in rows_of.items():
        names = ", ".join(dict.fromkeys(rows))
        notes.append(
            f"Pretrained further here, from the weights {path}: {names}."
            if pretrains
            else f"Not pretrained here, they or their teachers start from the weights {path}: {names}. "
            "Energy and firing are means over the fine-tuned runs."
        )
    return notes


def _configs(table: PaperTable, results: Results) -> dict[str, Config]:
    """A config of each system of a table, on the first task it is needed for."""
    return {row.system: results.find(row.system, table.row_tasks(row)[0]).config for row in table.rows if row.system}


def _meant(note: Footnote, row: Row, column: Column, ours_only: bool) -> bool:
    return note.column == column.name and note.system in ("", row.system) and (note.ours or not ours_only)


def _place(footnotes: list[str], text: str) -> int:
    if text not in footnotes:
        footnotes.append(text)
    return footnotes.index(text)


def _cell(column: Column, row: Row, values: Sequence[Value | None], footnotes: Sequence[int]) -> Cell:
    ours = [value for value in values if value is not None]
    lacking = len(values) - len(ours) if ours else 0
    if len({value.runs for value in ours}) == 1:  # all seeds share the pretrained run: one value, not many
        ours = ours[:1]
    paper = row.paper[column.name]
    printed = _digits(column, paper)
    return Cell(
        column=column.name,
        ours=tuple(value.value for value in ours),
        paper=paper,
        digits=_own_digits(column, printed, ours),
        difference_digits=printed,
        runs=tuple(dict.fromkeys(run for value in ours for run in value.runs)),
        footnotes=tuple(footnotes),
        lacking=lacking,
    )


def _digits(column: Column, paper: Printed) -> int:
    """As many as the paper prints."""
    if column.measure in SETTINGS or isinstance(paper, int):
        return 0
    if isinstance(paper, Decimal):
        return -int(paper.as_tuple().exponent)
    return DIGITS.get(column.measure or column.metric, 1)


def _own_digits(column: Column, printed: int, ours: Sequence[Value]) -> int:
    """Three significant ones for energies, which are far below the paper's in small models; else as printed."""
    if "energy" not in column.measure or not ours or not ours[0].value:
        return printed
    return max(printed, 2 - math.floor(math.log10(abs(float(ours[0].value)))))


def _finished(results: Results, wanted: Wanted) -> bool:
    return results.find(*wanted).result is not None


# --- our numbers of one row, each with the runs it was computed from ---


class Value(NamedTuple):
    """A number or word and the runs it was computed from."""

    value: float | str
    runs: tuple[RunRef, ...]


Values = dict[str, Value]  # by column or measure; what is not there has not been run


def row_values(table: PaperTable, row: Row, results: Results, seed: int) -> Values:
    """Our values of a row, as far as its runs are finished; a missing one is absent, never zero."""
    if row.system is None:
        return {}
    tuned = _task_runs(table, row, results, seed)
    values = _task_values(table, row, tuned)
    measures = {column.measure for column in table.columns if not column.task} - {"avg"}
    if measures - set(AUDITED):
        values |= system_measures(results, row.system, list(tuned.values()), seed)
    if "seconds" in measures and (seconds := _training_seconds(table, row, results)) is not None:
        values["seconds"] = seconds
    if measures & set(AUDITED):
        values |= _audited(results, row, seed)
    return values


def _task_runs(table: PaperTable, row: Row, results: Results, seed: int) -> dict[str, SelectedRun]:
    """The runs behind the row's scores, by task."""
    of_columns = [column.task for column in (*table.columns, *table.averaged) if column.task]
    tasks = dict.fromkeys([*of_columns, *(task for task in row.tasks if task.startswith("glue/"))])
    needed = set(table.row_tasks(row))
    return {task: results.find(str(row.system), task, seed) for task in tasks if task in needed}


def _task_values(table: PaperTable, row: Row, tuned: Mapping[str, SelectedRun]) -> Values:
    """Scores and measures of single tasks, and the average where all of its entries are there."""
    values = {
        column.name: value
        for column in (*table.columns, *table.averaged)
        if column.task in tuned and (value := _task_value(tuned[column.task], column, row)) is not None
    }
    averaged = [column.name for column in table.averaged if column.task in tuned]
    if averaged and all(name in values for name in averaged):
        entries = [values[name] for name in averaged]
        runs = tuple(dict.fromkeys(run for entry in entries for run in entry.runs))
        values["avg"] = Value(fmean(float(entry.value) for entry in entries), runs)
    return values


def _task_value(selected: SelectedRun, column: Column, row: Row) -> Value | None:
    """A metric or measure of one run."""
    result = selected.result
    if result is None:
        return None
    if column.measure == "energy_token":
        energy = result.energy_token.fp32 if result.energy_token else None
        value = None if energy is None else NANO * energy
    elif column.measure == "energy_generated":
        value = result.energy_detail.generated.fp32 if result.energy_detail else None
    else:
        metric = row.metrics.get(column.name) or column.metric or next(iter(result.metrics))
        value = result.metrics.get(metric)
    return None if value is None else Value(value, (reference(selected),))


def reference(selected: SelectedRun) -> RunRef:
    """A run's id and where it is below the store."""
    return selected.run.id, f"{selected.run.directory.parent.name}/{selected.run.directory.name}"


def has_pretraining(config: Config) -> bool:
    """Whether a system has a pretrained run of its own, with its own neurons."""
    converted_later = config.converted and config.distill.start.weights != "pretrained"
    left_out = config.backbone.keep_layers or converted_later or config.skips_pretraining
    return config.pretrains and not left_out


def system_measures(results: Results, system: str, tuned: Sequence[SelectedRun], seed: int) -> Values:
    """T, energies, firing rate, bits and levels of a system."""
    measured = _measured_runs(results, system, tuned, seed)
    values = _bits([*tuned, *measured])
    if not measured:
        return values
    of_runs = [run.result for run in measured if run.result]
    runs, config = tuple(map(reference, measured)), measured[0].config
    values["T"] = Value(config.time_steps if of_runs[0].spikes else 1, runs)
    energies = {
        "energy_fp32": [one.energy_mj.fp32 for one in of_runs],
        "energy_fp16": [one.energy_mj.fp16 for one in of_runs],
    }
    for name, energy in energies.items():
        if (mean := _mean(energy)) is not None:
            values[name] = Value(mean, runs)
    if (ratio := _mean([_energy_ratio(one) for one in of_runs])) is not None:
        values["energy_ratio"] = Value(ratio, runs)
    for name, of_cards in _card_values(of_runs).items():
        values[name] = Value(of_cards, runs)
    if (rate := _mean([one.firing_rate.mean for one in of_runs])) is not None:
        values["firing"] = Value(100 * rate, runs)
        virtual = [virtual_steps(config, one.firing_rate.virtual_steps) for one in of_runs]
        if None not in virtual:
            values["virtual_steps"] = Value(max(steps or 1 for steps in virtual), runs)
        values["events"] = Value(config.time_steps * rate, runs)  # of all time steps, as energy counts them
        values["levels"] = Value(spike_levels(config), runs)
    return values


def _card_values(results: Sequence[Result]) -> dict[str, float]:
    """What the estimators of the energy cards say, each as a column: in mJ, and over the quantised twin."""
    cards = [{line.key: line for line in one.energy_card.modelled} for one in results if one.energy_card]
    if len(cards) < len(results):
        return {}
    values: dict[str, float] = {}
    for key in KEYS[2:]:
        lines = [card[key] for card in cards if key in card]
        if len(lines) == len(cards):
            values[f"energy_{key}"] = fmean(line.network for line in lines)
            if all(one.spikes and line.twin for one, line in zip(results, lines, strict=True)):
                values[f"energy_twin_{key}"] = fmean(line.network / line.twin for line in lines)
    return values


def _energy_ratio(result: Result) -> float | None:
    """Of a model over the plain one of the same size."""
    ours, plain = result.energy_mj.fp32, result.energy_ann_mj.fp32
    return None if ours is None or not plain else ours / plain


def _training_seconds(table: PaperTable, row: Row, results: Results) -> Value | None:
    """Of pretraining and all fine-tunings together, once all are there.

    Of runs that differ by their seed alone the quickest counts: the others shared their cores with other work.
    """
    system, tasks = str(row.system), table.row_tasks(row)
    if "pretrain" not in tasks and has_pretraining(results.find(system, tasks[0]).config):
        tasks = ["pretrain", *tasks]
    quickest: dict[RunRef, float] = {}
    for task in tasks:
        of_seeds = [results.find(system, task, seed) for seed in results.selection.seeds]
        seconds = {reference(run): run.result.seconds for run in of_seeds if run.result}
        if not seconds:
            return None
        run = min(seconds, key=lambda one: seconds[one])
        quickest[run] = seconds[run]
    return Value(sum(quickest.values()), tuple(quickest))


def _measured_runs(results: Results, system: str, tuned: Sequence[SelectedRun], seed: int) -> list[SelectedRun]:
    """Where energy and firing rate come from: the system's pretrained run, or the fine-tuned ones if it has none."""
    if tuned and not has_pretraining(tuned[0].config):
        return [run for run in tuned if run.result]
    pretrained = results.find(system, "pretrain", seed)
    return [pretrained] if pretrained.result else []


def _bits(runs: Sequence[SelectedRun]) -> Values:
    """Bits of weights and activations, which every run of a system says."""
    for run in runs:
        if run.result:
            bits, used = run.result.bits, (reference(run),)
            return {"weight_bits": Value(bits.weights, used), "act_bits": Value(bits.activations, used)}
    return {}


def _mean(values: Sequence[float | None]) -> float | None:
    """None where it does not apply to the system."""
    return None if None in values else fmean(value for value in values if value is not None)


def _audited(results: Results, row: Row, seed: int) -> Values:
    """What the audit of a system's runs said, and what it was run on (table 1)."""
    system = str(row.system)
    audited = [run for task in row.tasks if (run := results.find(system, task, seed)).result]
    if not audited:
        return {}
    runs = tuple(map(reference, audited))
    extents = {run.result.spike_driven.verdict for run in audited if run.result}
    verdict = extents.pop() if len(extents) == 1 else "partly"
    values = {"verdict": Value(verdict, runs), "operations": Value("ACs" if verdict == "fully" else "MACs", runs)}
    kinds = kind_of(audited[0].config.backbone).tasks
    # A SpikeLM of texts is a BART: the row's own tasks tell what else the system is made for.
    able = {*kinds, *(run.config.task.kind for run in audited)}
    writes_on = {"pretrain", LM} >= {*kinds} and any(run.config.task.name == "pretrain" for run in audited)
    for name, kind, tasks in (
        ("discrimination", "classification", [f"glue/{task}" for task in GLUE]),
        ("generation", "seq2seq", TEXTS),
    ):
        if kind not in able:
            values[name] = Value("plain text" if name == "generation" and writes_on else "none", runs)
        elif done := [run for task in tasks if (run := results.find(system, task, seed)).result]:
            values[name] = Value(f"{len(done)} of {len(tasks)} tasks", tuple(map(reference, done)))
    return values
