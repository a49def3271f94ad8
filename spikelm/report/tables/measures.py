"""Our numbers of a table's row: scores and measures by column, each with the runs it was computed from."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from spikelm.catalog.kinds import kind_of
from spikelm.config.schema import Config
from spikelm.config.specs import NeuronSpec
from spikelm.report.query.selection import Found, Results
from spikelm.report.tables.cells import RunRef
from spikelm.report.tables.paper_table import AUDITED, GLUE, Column, PaperTable, Row

TEXTS = ("sum/xsum", "sum/cnn_dm", "mt/wmt16_enro")
DECIMALS = {"T": 0}


class Value(NamedTuple):
    """A number or word and its runs."""

    value: Any
    runs: tuple[RunRef, ...]


def row_values(table: PaperTable, row: Row, results: Results, seed: int) -> dict[str, Value]:
    """Our values of a row, as far as its runs are finished; a missing one is absent, never zero."""
    if row.system is None:
        return {}
    system, needed = row.system, set(table.row_tasks(row))
    tuned: dict[str, Found] = {}
    of_columns = [column.task for column in (*table.columns, *table.averaged) if column.task]
    for task in dict.fromkeys([*of_columns, *(task for task in row.tasks if task.startswith("glue/"))]):
        if task in needed:
            tuned[task] = results.find(system, task, seed)
    found: dict[str, Value] = {}
    for column in (*table.columns, *table.averaged):
        if column.task in tuned and (value := _of_task(tuned[column.task], column, row)) is not None:
            found[column.name] = value
    averaged = [found.get(column.name) for column in table.averaged if column.task in tuned]
    if averaged and all(value is not None for value in averaged):
        entries = [value for value in averaged if value is not None]
        runs = tuple(dict.fromkeys(run for value in entries for run in value.runs))
        found["avg"] = Value(fmean(value.value for value in entries), runs)
    names = {column.measure for column in table.columns if not column.task} - {"avg"}
    if names - set(AUDITED):
        found |= system_measures(results, system, list(tuned.values()), seed)
    if names & set(AUDITED):
        found |= _audited(results, row, seed)
    return found


def _of_task(found: Found, column: Column, row: Row) -> Value | None:
    """A metric or measure of one run."""
    result = found.result
    if result is None:
        return None
    runs = (reference(found),)
    if column.measure == "energy_generated":
        detail = result.get("energy_detail")
        return Value(detail["generated"]["fp32"], runs) if detail else None
    metrics = result["metrics"]
    metric = row.metrics.get(column.name) or column.metric or next(iter(metrics))
    return Value(metrics[metric], runs) if metrics.get(metric) is not None else None


def reference(found: Found) -> RunRef:
    """A run's id and where it is below the store."""
    return found.run.id, f"{found.run.directory.parent.name}/{found.run.directory.name}"


def measured_runs(results: Results, system: str, tuned: Sequence[Found], seed: int) -> list[Found]:
    """Where energy and firing rate come from: the system's pretrained run, or the fine-tuned ones if it has none."""
    if tuned and not has_pretraining(tuned[0].config):
        return [run for run in tuned if run.result]
    pretrained = results.find(system, "pretrain", seed)
    return [pretrained] if pretrained.result else []


def has_pretraining(config: Config) -> bool:
    """Whether a system has a pretrained run of its own, with its own neurons."""
    converted_later = config.converted and config.distill.start.weights != "pretrained"
    return not (config.backbone.path or config.backbone.keep_layers or converted_later)


def system_measures(results: Results, system: str, tuned: Sequence[Found], seed: int) -> dict[str, Value]:
    """T, energies, firing rate, bits and levels of a system."""
    runs = measured_runs(results, system, tuned, seed)
    found: dict[str, Value] = {}
    if bits := next((run for run in [*tuned, *runs] if run.result and run.result.get("bits")), None):
        of = (bits.result or {})["bits"]
        found |= {f"{short}_bits": Value(of[name], (reference(bits),)) for short, name in BITS.items()}
    if not runs:
        return found
    told = [run.result for run in runs if run.result]
    used = tuple(reference(run) for run in runs)
    spiking = told[0]["firing_rate"]["mean"] is not None
    found["T"] = Value(runs[0].config.time_steps if spiking else 1, used)
    for kind in ("fp32", "fp16"):
        if told[0]["energy_mj"][kind] is not None:
            found[f"energy_{kind}"] = Value(fmean(result["energy_mj"][kind] for result in told), used)
    if spiking:
        found["firing"] = Value(100 * fmean(result["firing_rate"]["mean"] for result in told), used)
        found["levels"] = Value(levels(runs[0].config.neuron), used)
    return found


BITS = {"weight": "weights", "act": "activations"}


def levels(neuron: NeuronSpec) -> str:
    """The values that a spike of a neuron has, as table 6 prints them."""
    height = "alpha" if neuron.arguments.get("elastic") else "1"
    return f"{{-{height},0,{height}}}" if neuron.arguments.get("direction") == "bi" else f"{{0,{height}}}"


def _audited(results: Results, row: Row, seed: int) -> dict[str, Value]:
    """What the audit of a system's runs said, and what it was run on (table 1)."""
    system = str(row.system)
    there = [run for task in row.tasks if (run := results.find(system, task, seed)).result]
    if not there:
        return {}
    verdicts = [(run.result or {})["spike_driven"]["verdict"] for run in there]
    verdict = "fully" if set(verdicts) == {"fully"} else "none" if set(verdicts) == {"none"} else "partly"
    used = tuple(map(reference, there))
    known = kind_of(there[0].config.backbone).tasks
    # A SpikeLM of texts is a BART: the row's own tasks tell what else the system is made for.
    able = {*known, *(run.config.task.kind for run in there)}
    found = {
        "verdict": Value(verdict, used),
        "operations": Value("ACs" if verdict == "fully" else "MACs", used),
    }
    glue = [
        run for task in GLUE if "classification" in able and (run := results.find(system, f"glue/{task}", seed)).result
    ]
    made = [run for task in TEXTS if "seq2seq" in able and (run := results.find(system, task, seed)).result]
    for name, kind, runs, tasks in (
        ("discrimination", "classification", glue, len(GLUE)),
        ("generation", "seq2seq", made, len(TEXTS)),
    ):
        if kind not in able:
            causal = name == "generation" and any(run.config.task.name == "pretrain" for run in there)
            found[name] = Value("plain text" if causal and known == ("pretrain",) else "none", used)
        elif runs:
            found[name] = Value(f"{len(runs)} of {tasks} tasks", tuple(map(reference, runs)))
    return found
