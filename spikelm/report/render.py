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
from spikelm.report.tables import GLUE, PaperTable, Row

HEADINGS = {"energy_fp32": "mJ fp32", "energy_fp16": "mJ fp16", "firing": "firing %", "T": "T", "avg": "avg"}


def render_table(table: PaperTable, options: Sequence[str], seeds: Sequence[int], root: Path) -> Path:
    """Print the table and write its Markdown; every number of ours carries scale and source in the title."""
    rows = [(row, [our_row(table, row, [*options, f"seed={seed}"]) for seed in seeds]) for row in table.rows]
    made = f"{', '.join(options[:2])}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
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
    for note in table.notes:
        console.print(f"  note: {note}", soft_wrap=True)
    scale, source = (option.partition("=")[2] for option in options[:2])
    path = root / "tables" / f"table{table.id}-{scale}-{source}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", *markdown_table(headings, cells)]
    lines += ["", *(f"- {note}" for note in table.notes), ""]
    path.write_text("\n".join(lines))
    console.print(f"  written to {path}", soft_wrap=True)
    return path


def our_row(table: PaperTable, row: Row, options: Sequence[str]) -> dict[str, float]:
    """Our numbers of a row, as far as its runs are finished; a missing one is absent, never zero."""
    if row.system is None:
        return {}
    pretrained = _result(row.system, "pretrain", options)
    found: dict[str, float] = {}
    if pretrained:
        found["T"] = pretrained["config"]["T"] if pretrained["firing_rate"]["mean"] is not None else 1
        found |= {f"energy_{kind}": value for kind, value in pretrained["energy_mj"].items()}
        if pretrained["firing_rate"]["mean"] is not None:
            found["firing"] = 100 * pretrained["firing_rate"]["mean"]
    scores: dict[str, float] = {}
    for task in GLUE if "avg" in table.columns else [t.removeprefix("glue/") for t in table.tasks if t != "pretrain"]:
        if result := _result(row.system, f"glue/{task}", options):
            metric = table.metrics.get(task) or next(iter(result["metrics"]))
            scores |= {task: result["metrics"][metric]} if task != "mnli" else _mnli(result["metrics"])
    average = glue_average(scores)
    return {**found, **scores, **({} if average is None else {"avg": average})}


def _mnli(metrics: dict[str, float]) -> dict[str, float]:
    return {"mnli_m": metrics["accuracy"], "mnli_mm": metrics["accuracy_mm"]}


def _result(system: str, task: str, options: Sequence[str]) -> dict[str, Any] | None:
    config = load_config([f"system={system}", f"task={task}", *options])
    if task == "pretrain":
        config.seed = config.pretrain.seed
    return open_run(config).result()


def _cell(ours: Sequence[float], paper: Any, column: str) -> str:
    """Ours (mean ± standard deviation over the seeds there are) and the paper's in brackets."""
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
