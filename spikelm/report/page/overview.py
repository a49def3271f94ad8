"""What the first page shows: how much there is, score against energy, what is going on and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spikelm.report.page.entries import RunRow
from spikelm.report.page.sections import Sections
from spikelm.report.page.svg import Point, legend, scatter

STATES = ("finished", "result only", "running", "interrupted", "failed", "broken", "new")
LATEST = 12
PROBLEMS = 25
MARKS = 400  # of one chart, the newest


@dataclass(frozen=True)
class Kind:
    """How many runs have finished at a scale and source."""

    scale: str
    source: str
    runs: int


@dataclass(frozen=True)
class TaskChart:
    """Score against energy of a task's runs."""

    task: str
    chart: Markup


@dataclass(frozen=True)
class ChartGroup:
    """The charts of one scale and source, with their common legend."""

    scale: str
    source: str
    charts: list[TaskChart]
    legend: Markup


@dataclass(frozen=True)
class Overview:
    """The blocks of index.html."""

    states: list[tuple[str, int]]
    kinds: list[Kind]
    charts: list[ChartGroup]
    running: list[RunRow]
    latest: list[RunRow]
    problems: list[RunRow]
    sections: Sections
    total: int


def overview(rows: Sequence[RunRow], sections: Sections) -> Overview:
    """The blocks of index.html."""
    finished = [row for row in rows if row.state in ("finished", "result only")]
    states = Counter(row.state for row in rows)
    kinds = Counter((row.scale, row.source) for row in finished)
    return Overview(
        states=[(state, states[state]) for state in STATES if states[state]],
        kinds=[Kind(scale, source, runs) for (scale, source), runs in sorted(kinds.items())],
        charts=_charts(finished),
        running=[row for row in rows if row.state == "running"],
        latest=finished[:LATEST],
        problems=[row for row in rows if row.state in ("failed", "broken", "interrupted")][:PROBLEMS],
        sections=sections,
        total=len(rows),
    )


def _charts(finished: Sequence[RunRow]) -> list[ChartGroup]:
    """Score against energy: one group per scale and source, one chart per task, one mark per run."""
    groups: dict[tuple[str, str], dict[str, list[RunRow]]] = {}
    for row in finished:
        if row.score is not None and row.energy:
            groups.setdefault((row.scale, row.source), {}).setdefault(row.task, []).append(row)
    charts = []
    for (scale, source), tasks in sorted(groups.items()):
        several = {task: runs for task, runs in sorted(tasks.items()) if len({run.neuron for run in runs}) > 1}
        neurons = sorted({run.neuron for runs in several.values() for run in runs}, key=lambda n: (n != "ann", n))
        if several:
            of_tasks = [_chart(task, runs[:MARKS], neurons) for task, runs in several.items()]
            charts.append(ChartGroup(scale, source, of_tasks, legend(neurons, marks=True)))
    return charts


def _chart(task: str, runs: Sequence[RunRow], neurons: Sequence[str]) -> TaskChart:
    points = [
        Point(
            energy,
            score,
            run.neuron,
            f"{run.system}: {run.metric} {score:.2f}, {energy:.4g} mJ, {run.scale} {run.source}",
            f"run/{run.name}.html",
        )
        for run in runs
        if (energy := run.energy) is not None and (score := run.score) is not None
    ]
    return TaskChart(task, scatter(points, neurons, "mJ fp32, one inference", runs[0].metric))
