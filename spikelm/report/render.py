"""A table of the paper beside our own numbers, to the terminal and as Markdown under runs/tables/."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from spikelm.compose import load_config
from spikelm.experiment import open_run
from spikelm.measure.metrics import glue_average
from spikelm.records import digest
from spikelm.report.tables import GLUE, PaperTable, Row

FILES = ("source.root=", "source.tokenizer=")  # where files are says nothing about a result
GIVEN = "The weights were given, not pretrained here: energy and firing are means over the fine-tuned runs."
HEADINGS = {"energy_fp32": "mJ fp32", "energy_fp16": "mJ fp16", "firing": "firing %", "T": "T", "avg": "avg"}


def render_table(table: PaperTable, options: Sequence[str], seeds: Sequence[int], root: Path) -> Path:
    """Print the table and write its Markdown; every number of ours carries scale and source in the title."""
    rows = [(row, [our_row(table, row, [*options, f"seed={seed}"]) for seed in seeds]) for row in table.rows]
    config = load_config([f"task={table.tasks[0]}", *options])
    where = f"scale={config.scale}, source={config.source.name}"
    extra = [option for option in options if not option.startswith(("scale=", "source=", "runs_dir=", *FILES))]
    made = f"{', '.join([where, *extra])}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    title = f"Table {table.id}: {table.title}. Ours at {made}; the paper's in brackets"
    cells = [
        [row.name, *(_cell([found[c] for found in ours if c in found], row.paper[c], c) for c in table.columns)]
        for row, ours in rows
    ]
    headings = ["system", *(HEADINGS.get(column, column.replace("_", "-")) for column in table.columns)]
    shown = Table(title=title, title_justify="left")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "system" else "right")
    for line in cells:
        shown.add_row(*line)
    console = Console(width=max(Console().width, 16 * len(headings)))
    console.print(shown)
    notes = [GIVEN, *table.notes] if config.backbone.path else table.notes
    for note in notes:
        console.print(f"  note: {note}", soft_wrap=True)
    few = [] if table.chosen == GLUE else ["+".join(table.chosen)]
    others = [digest(sorted(extra))[:6]] if extra else []  # a table with other settings is another file
    name = "-".join([f"table{table.id}", config.scale, config.source.name, *few, *others])
    path = root / "tables" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", *markdown_table(headings, cells)]
    lines += ["", *(f"- {note}" for note in notes), ""]
    path.write_text("\n".join(lines))
    console.print(f"  written to {path}", soft_wrap=True)
    return path


def our_row(table: PaperTable, row: Row, options: Sequence[str]) -> dict[str, Any]:
    """Our numbers of a row, as far as its runs are finished; a missing one is absent, never zero."""
    if row.system is None:
        return {}
    tasks = [task.removeprefix("glue/") for task in table.tasks if task != "pretrain"]
    results = {task: result for task in tasks if (result := _result(row.system, f"glue/{task}", options))}
    scores: dict[str, float] = {}
    for task, result in results.items():
        metric = table.metrics.get(task) or next(iter(result["metrics"]))
        scores |= {task: result["metrics"][metric]} if task != "mnli" else _mnli(result["metrics"])
    found: dict[str, Any] = _measures(_measured(row.system, list(results.values()), options))
    if bits := next((result.get("bits") for result in results.values()), None):
        found |= {"weight_bits": bits["weights"], "act_bits": bits["activations"]}
    average = glue_average(scores)
    if table.chosen != GLUE and len(results) == len(tasks):
        average = statistics.fmean(scores.values()) if scores else None
    return {**found, **scores, **({} if average is None else {"avg": average})}


def _measured(system: str, tuned: list[dict[str, Any]], options: Sequence[str]) -> list[dict[str, Any]]:
    """Where energy and firing rate come from: the system's pretrained run, or the fine-tuned ones if it has none."""
    config = load_config([f"system={system}", *options])
    converted_later = config.converted and config.distill.start != "pretrained"
    if config.backbone.path or config.backbone.keep_layers or converted_later:
        return tuned
    pretrained = _result(system, "pretrain", options)
    return [pretrained] if pretrained else []


def _measures(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    if not results:
        return {}
    spiking = results[0]["firing_rate"]["mean"] is not None
    found = {"T": results[0]["config"]["T"] if spiking else 1}
    for kind, energy in results[0]["energy_mj"].items():
        if energy is None:
            continue
        found[f"energy_{kind}"] = statistics.fmean(result["energy_mj"][kind] for result in results)
    if spiking:
        found["firing"] = 100 * statistics.fmean(result["firing_rate"]["mean"] for result in results)
    return found


def _mnli(metrics: dict[str, float]) -> dict[str, float]:
    return {"mnli_m": metrics["accuracy"], "mnli_mm": metrics["accuracy_mm"]}


def _result(system: str, task: str, options: Sequence[str]) -> dict[str, Any] | None:
    config = load_config([f"system={system}", f"task={task}", *options])
    if task == "pretrain":
        config.seed = config.pretrain.seed
    return open_run(config).result()


def _cell(ours: Sequence[Any], paper: Any, column: str) -> str:
    """Ours (mean ± standard deviation over the seeds there are) and the paper's in brackets."""
    if column.endswith("_bits"):
        return f"{ours[0] if ours else ''} ({paper})"
    mean = statistics.fmean(ours) if ours else 0.0
    digits = 0 if column == "T" else 4 if column.startswith("energy") and mean < 1 else 1
    left = f"{mean:.{digits}f}" if ours else ""
    if len(set(ours)) > 1:
        left += f"±{statistics.stdev(ours):.{digits}f}"
    return f"{left} ({'–' if paper is None else paper})"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [_line(headings), _line(["---"] * len(headings)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
