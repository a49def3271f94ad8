"""spikelm-report scores: the runs of a sweep as one table, with one row per system and one column per task."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from spikelm.catalog.kinds import UNLABELLED
from spikelm.catalog.quantities import bits_text, duration, significant
from spikelm.report.query.output import writable
from spikelm.report.query.sweep_runs import Job, jobs_of, system_names
from spikelm.report.tables.formats import markdown_table, print_columns
from spikelm.store.result import PRINTED, Result, number_text

#: bits: of weights-activations; events: spikes of one value over all steps
MEASURES = ("bits", "firing %", "events", "mJ fp32", "of the ANN", "time")


def show_scores(overrides: Sequence[str], root: Path, output: Path | None, folder: Path | None = None) -> Path:
    """Print the table and write it as Markdown with the command of every run; unfinished cells stay empty.

    It goes to the file `output`, or to tables/ of `folder`, which is report/ of the store where none is given.
    """
    jobs = jobs_of(overrides, root)
    tasks = list(dict.fromkeys(job.config.task.name for job in jobs))
    systems: dict[str, list[Job]] = {}
    for name, job in zip(system_names(jobs), jobs, strict=True):
        systems.setdefault(name, []).append(job)
    scales = list(dict.fromkeys(job.config.scale for job in jobs))
    sources = list(dict.fromkeys(job.config.rows_from for job in jobs))
    seeds = sorted({job.config.seed for job in jobs})
    missing = [job for job in jobs if job.run.result() is None]
    title = (
        f"scale {', '.join(scales)}, source {', '.join(sources)}, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}: dev scores in %, mean of the tasks over the seeds that have all of them"
    )
    losses = {job.config.task.name for job in jobs if job.config.task.kind in UNLABELLED}
    headings = [
        "system",
        *(f"{task} (loss)" if task in losses else _heading(task) for task in tasks),
        "mean",
        *MEASURES,
    ]
    lines = [[name, *_cells(jobs_of_system, tasks, losses)] for name, jobs_of_system in systems.items()]
    console = Console()
    console.print(title, soft_wrap=True, highlight=False)
    print_columns(headings, [list(map(escape, line)) for line in lines], 1, console)
    if missing:
        console.print(f"  {len(missing)} of {len(jobs)} runs are not finished", soft_wrap=True)
    path = output or (folder or root / "report") / "tables" / f"{'-'.join(['scores', *scales, *sources])}.md"
    writable(path.parent)
    commands = [f"- `{job.command}` ({_state(job)})" for job in jobs]
    path.write_text("\n".join([f"# {title}", "", *markdown_table(headings, lines), "", *commands, ""]))
    console.print(f"  written to {path}", soft_wrap=True)
    return path


def _heading(task: str) -> str:
    name = task.removeprefix("glue/")
    return f"{name} ({PRINTED[name]})" if name in PRINTED else name


def _cells(jobs: Sequence[Job], tasks: Sequence[str], losses: Collection[str]) -> list[str]:
    results = [result for job in jobs if (result := job.run.result()) is not None]
    scores = {task: _scores(result for result in results if result.task == task) for task in tasks}
    averaged = [task for task in tasks if task not in losses]
    rates = [result.firing_rate.mean for result in results if result.firing_rate.mean is not None]
    energies = [
        (result.energy_mj.fp32, result.energy_ann_mj.fp32 or 0.0)
        for result in results
        if result.energy_mj.fp32 is not None
    ]
    ours, ann = (statistics.fmean(column) for column in zip(*energies, strict=True)) if energies else (0.0, 0.0)
    return [
        *(_spread(values) for values in scores.values()),
        _spread(_means(results, averaged)),
        "-".join(map(bits_text, jobs[0].config.bits.values())),
        f"{100 * statistics.fmean(rates):.1f}" if rates else "",
        f"{jobs[0].config.time_steps * statistics.fmean(rates):.2f}" if rates else "",
        significant(ours) if energies else "",
        f"1/{ann / ours:.1f}" if energies else "",
        duration(sum(result.seconds for result in results)) if results else "",
    ]


def _means(results: Sequence[Result], tasks: Sequence[str]) -> list[float]:
    """The mean of the tasks for each seed that has all of them."""
    by_seed: dict[int, list[float]] = {}
    for result in results:
        if result.task in tasks and result.score is not None:
            by_seed.setdefault(result.seed, []).append(result.score)
    return [statistics.fmean(scores) for scores in by_seed.values() if len(scores) == len(tasks)]


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
    return f"{number_text(result.score)}, {duration(result.seconds)}, run {job.run.id[:8]}"
