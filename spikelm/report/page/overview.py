"""What the first page shows: score against energy, the claims, what is going on, what went wrong, what came last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spikelm.report.page.better import Better, better
from spikelm.report.page.charts import Point, ScatterChart
from spikelm.report.page.entries import FINISHED, RunRow
from spikelm.report.page.numbers import energy_text
from spikelm.report.page.sections import Sections, TableCell, TableRow, TableSection
from spikelm.store.store import RESULT_ONLY

STATES = (FINISHED, RESULT_ONLY, "running", "interrupted", "failed", "broken", "new")
LATEST = 10
PROBLEMS = 25
MARKS = 200  # of one chart, the newest
ENERGY = "energy of one inference, mJ fp32 (lower is better)"


@dataclass(frozen=True)
class Kind:
    """How many runs have finished at a scale and source."""

    scale: str
    source: str
    runs: int


@dataclass(frozen=True)
class Overview:
    """The blocks of index.html."""

    states: list[tuple[str, int]]
    kinds: list[Kind]
    charts: list[ScatterChart]  # the first is the one to show
    running: list[RunRow]
    latest: list[RunRow]
    problems: list[RunRow]
    sections: Sections
    total: int


def overview(rows: Sequence[RunRow], sections: Sections) -> Overview:
    """The blocks of index.html."""
    finished = [row for row in rows if row.state in (FINISHED, RESULT_ONLY)]
    states = Counter(row.state for row in rows)
    kinds = Counter((row.scale, row.source) for row in finished)
    charts = [*_table_charts(sections.tables), *_task_charts(finished)]
    return Overview(
        states=[(state, states[state]) for state in STATES if states[state]],
        kinds=[Kind(scale, source, runs) for (scale, source), runs in sorted(kinds.items())],
        charts=charts,
        running=[row for row in rows if row.state == "running"],
        latest=finished[:LATEST],
        problems=[row for row in rows if row.state in ("failed", "broken", "interrupted")][:PROBLEMS],
        sections=sections,
        total=len(rows),
    )


def headline(points: Sequence[Point], direction: Better) -> str:
    """The best score in words, and beside it the best one that is had for less energy."""
    sign = -1 if direction == "lower" else 1
    first = max(points, key=lambda point: (sign * point.y, -point.x))
    said = f"{first.label} has the best score: {first.y:.1f} at {energy_text(first.x)} mJ."
    if cheaper := [point for point in points if point.x < first.x]:
        second = max(cheaper, key=lambda point: (sign * point.y, -point.x))
        said += (
            f" {second.label} comes to {second.y:.1f} at {energy_text(second.x)} mJ: "
            f"{abs(first.y - second.y):.1f} points {'more' if sign < 0 else 'less'}, "
            f"for {first.x / second.x:.1f} times less energy."
        )
    return said


def _table_charts(tables: Sequence[TableSection]) -> list[ScatterChart]:
    """One chart for each table that has energies and an average, the best-filled one first."""
    charts = []
    for table in tables:
        keys = [column.name for column in table.columns]
        if "energy_fp32" in keys and "avg" in keys:
            points = _table_points(table, keys)
            if len(points) > 1:
                average = "average score (higher is better)"
                said = headline(points, "higher")
                charts.append(ScatterChart(table.name, table.title, table.where, ENERGY, average, points, said))
    return sorted(charts, key=lambda chart: -len(chart.points))


def _table_points(table: TableSection, keys: Sequence[str]) -> list[Point]:
    names = Counter(row.name for row in table.rows)
    points = []
    for row in table.rows:
        cells: Mapping[str, TableCell] = dict(zip(keys, row.cells, strict=True))
        energy, score = cells["energy_fp32"].value, cells["avg"].value
        if energy and score is not None:
            label = _row_label(row, cells, names)
            runs = len(cells["avg"].runs)
            about = f"{cells['avg'].ours} from {runs} run{'s' if runs != 1 else ''}"
            points.append(Point(energy, score, row.name, label, about, f"tables.html#{table.name}", row.look))
    return points


def _row_label(row: TableRow, cells: Mapping[str, TableCell], names: Mapping[str, int]) -> str:
    steps = cells["T"].ours if "T" in cells else ""
    name = row.name.replace("_", " ")
    return f"{name}, T={steps}" if names[row.name] > 1 and steps else name


def _task_charts(finished: Sequence[RunRow]) -> list[ScatterChart]:
    """One chart for each task, scale and source with several systems; one mark for each run."""
    groups: dict[tuple[str, str, str], list[RunRow]] = {}
    for row in finished:
        if row.score is not None and row.energy:
            groups.setdefault((row.scale, row.source, row.task), []).append(row)
    charts = []
    for (scale, source, task), runs in sorted(groups.items()):
        shown = runs[:MARKS]
        steps: dict[str, set[int | None]] = {}
        for run in shown:
            steps.setdefault(run.system, set()).add(run.T)
        if len({(run.system, run.T) for run in shown}) > 1:
            direction = better(shown[0].metric)
            metric = f"{shown[0].metric} ({direction} is better)"
            points = [point for run in shown if (point := _run_point(run, len(steps[run.system]) > 1)) is not None]
            where = f"{scale} · {source}"
            said = headline(points, direction)
            charts.append(ScatterChart(f"{task}-{scale}-{source}", task, where, ENERGY, metric, points, said))
    return charts


def _run_point(run: RunRow, tell_steps: bool) -> Point | None:
    if run.energy is None or run.score is None:
        return None
    label = f"{run.system}, T={run.T}" if tell_steps and run.T else run.system
    about = f"run {run.name[:8]}, seed {run.seed}"
    return Point(run.energy, run.score, run.system, label, about, f"run/{run.name}.html", run.look)
