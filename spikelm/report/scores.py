"""spikelm-report scores: the runs of a sweep as one table, with one row per system and one column per task."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spikelm.report.query.output import writable
from spikelm.report.query.settings import system_name
from spikelm.report.query.sweep_runs import Job, jobs_of
from spikelm.report.tables.formats import markdown_table
from spikelm.store.result import PRINTED, Result, number_text

MEASURES = ("bits", "firing %", "mJ fp32", "of the ANN", "minutes")  # bits: of weights-activations


def show_scores(overrides: Sequence[str], root: Path, output: Path | None, folder: Path | None = None) -> Path:
    """Print the table and write it as Markdown with the command of every run; unfinished cells stay empty.

    It goes to the file `output`, or to tables/ of `folder`, which is report/ of the store where none is given.
    """
    jobs = jobs_of(overrides, root)
    tasks = list(dict.fromkeys(job.config.task.name for job in jobs))
    systems: dict[str, list[Job]] = {}
    steps: dict[str, set[int]] = {}
    for job in jobs:
        steps.setdefault(system_name(job.config), set()).add(job.config.time_steps)
    for job in jobs:
        name = system_name(job.config)  # SpikeLM is one system of the paper at T=1 and T=4, not two seeds of one run
        systems.setdefault(f"{name} T={job.config.time_steps}" if len(steps[name]) > 1 else name, []).append(job)
    first = jobs[0].config
    seeds = sorted({job.config.seed for job in jobs})
    missing = [job for job in jobs if job.run.result() is None]
    title = (
        f"{first.scale} scale, source {first.source.name}, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}: dev scores in %, mean of the tasks where all are there"
    )
    headings = ["system", *(_heading(task) for task in tasks), "mean", *MEASURES]
    lines = [[name, *_cells(jobs_of_system, tasks)] for name, jobs_of_system in systems.items()]
    shown = Table(title=title, title_justify="left")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "system" else "right", no_wrap=True)
    for line in lines:
        shown.add_row(*line)
    widths = [max(map(len, column)) + 3 for column in zip(headings, *lines, strict=True)]  # no name is cut short
    console = Console(width=max(Console().width, 120, sum(widths) + 1))
    console.print(shown)
    if missing:
        console.print(f"  {len(missing)} of {len(jobs)} runs are not finished", soft_wrap=True)
    path = output or (folder or root / "report") / "tables" / f"scores-{first.scale}-{first.source.name}.md"
    writable(path.parent)
    commands = [f"- `{job.command}` ({_state(job)})" for job in jobs]
    path.write_text("\n".join([f"# {title}", "", *markdown_table(headings, lines), "", *commands, ""]))
    console.print(f"  written to {path}", soft_wrap=True)
    return path


def _heading(task: str) -> str:
    name = task.removeprefix("glue/")
    return f"{name} ({PRINTED[name]})" if name in PRINTED else name


def _cells(jobs: Sequence[Job], tasks: Sequence[str]) -> list[str]:
    results = [result for job in jobs if (result := job.run.result()) is not None]
    scores = {task: _scores(result for result in results if result.task == task) for task in tasks}
    complete = all(scores.values())
    mean = f"{statistics.fmean(statistics.fmean(values) for values in scores.values()):.1f}" if complete else ""
    rates = [100 * result.firing_rate.mean for result in results if result.firing_rate.mean is not None]
    energies = [
        (result.energy_mj.fp32, result.energy_ann_mj.fp32 or 0.0)
        for result in results
        if result.energy_mj.fp32 is not None
    ]
    ours, ann = (statistics.fmean(column) for column in zip(*energies, strict=True)) if energies else (0.0, 0.0)
    return [
        *(_spread(values) for values in scores.values()),
        mean,
        "-".join(map(str, jobs[0].config.bits.values())),
        f"{statistics.fmean(rates):.1f}" if rates else "",
        f"{ours:.3f}" if energies else "",
        f"1/{ann / ours:.1f}" if energies else "",
        f"{sum(result.seconds for result in results) / 60:.0f}" if results else "",
    ]


def _scores(results: Iterable[Result]) -> list[float]:
    return [result.score for result in results if result.score is not None]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    tail = f"±{statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{tail}"


def _state(job: Job) -> str:
    if (result := job.run.result()) is None:
        return job.run.state
    return f"{number_text(result.score)}, {result.seconds / 60:.1f} min, run {job.run.id[:8]}"
