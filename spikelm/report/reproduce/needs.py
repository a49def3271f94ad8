"""What a reproduction still has to run: every run and the runs it needs first, and about how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.config.settings.schema import Config
from spikelm.report.query.selection import SelectedRun
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title
from spikelm.runs.prerequisites import prerequisites
from spikelm.runs.timings import Timings
from spikelm.store.store import Run


@dataclass(frozen=True)
class Need:
    """A run of the plan: asked for, or needed by one that is."""

    config: Config
    run: Run
    finished: bool
    asked: bool
    seconds: float | None  # about, from earlier runs; None: nothing alike has been run
    needed: bool = False  # by another one that is to be run
    again: bool = False  # finished and needed, but its weights are gone: made again first

    @property
    def title(self) -> str:
        return f"{self.config.task.name} {title(self.config)} T={self.config.time_steps}"


def needs_of(wanted: Sequence[SelectedRun], timings: Timings) -> list[Need]:
    """The wanted runs with all they need, each once, what is needed first coming first."""
    needs: dict[str, Need] = {}
    asked = {one.run.id for one in wanted}
    waited_for: set[str] = set()
    again: set[str] = set()

    def visit(config: Config, run: Run, finished: bool) -> None:
        if run.id in needs:
            return
        if not finished:
            visit_before(config)
        needs[run.id] = Need(config, run, finished, run.id in asked, None if finished else timings.about(config))

    def visit_before(config: Config) -> None:
        for needed in prerequisites(config).values():
            before = open_run(needed)
            waited_for.add(before.id)
            if before.finished and before.id not in again and not (before.directory / "model").is_dir():
                again.add(before.id)
                visit_before(needed)
            visit(needed, before, before.finished)

    for one in wanted:
        visit(one.config, one.run, one.result is not None)
    return [
        replace(need, needed=id in waited_for, again=True, seconds=timings.about(need.config))
        if id in again
        else replace(need, needed=id in waited_for)
        for id, need in needs.items()
    ]


def minutes(seconds: float) -> str:
    """A time a person can read."""
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"


def show_needs(title: str, needs: Sequence[Need], console: Console, at_once: int = 1) -> None:
    """The runs needed, those there are, and about how long the others take, by task."""
    todo = [need for need in needs if not need.finished]
    asked = [need for need in needs if need.asked]
    done = sum(need.finished for need in asked)
    first = [need for need in todo if not need.asked]
    console.print(
        f"{title}: {len(asked)} runs, {done} finished, {len(asked) - done} to do"
        f"{f', and {len(first)} that they need first' if first else ''}",
        soft_wrap=True,
    )
    if not todo:
        return
    console.print(_by_task(needs))
    if again := [need for need in needs if need.again]:
        names = ", ".join(need.title for need in again)
        console.print(f"  {len(again)} more are made again for their weights, which are gone: {names}", highlight=False)
    times = [need.seconds for need in (*todo, *again) if need.seconds is not None]
    unknown = len(todo) + len(again) - len(times)
    console.print(f"  to do: {_time(times, unknown, at_once)}", soft_wrap=True, highlight=False)


def _by_task(needs: Sequence[Need]) -> Table:
    """One row per task; the systems of several tasks are named once."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("task")
    for column in ("runs", "finished", "to do", "about"):
        table.add_column(column, justify="right")
    table.add_column("systems to do")
    said: dict[tuple[str, ...], str] = {}
    for task in dict.fromkeys(need.config.task.name for need in needs):
        group = [need for need in needs if need.config.task.name == task]
        rest = [need for need in group if not need.finished]
        about = [need.seconds for need in rest if need.seconds is not None]
        more = "+" if len(about) < len(rest) else ""
        names = tuple(dict.fromkeys(need.title.partition(" ")[2] for need in rest))
        first = said.setdefault(names, task)
        repeated = len(names) > 2 and first != task
        table.add_row(
            task,
            str(len(group)),
            str(len(group) - len(rest)),
            str(len(rest)),
            f"{minutes(sum(about))}{more}" if about else ("?" if rest else ""),
            f"the same {len(names)} as {first}" if repeated else ", ".join(names),
        )
    return table


def _time(times: Sequence[float], unknown: int, at_once: int) -> str:
    """How long it takes, as far as earlier runs tell."""
    if not times:
        return "no earlier run tells how long it takes"
    side_by_side = f", {minutes(sum(times) / at_once)} with {at_once} at a time" if at_once > 1 else ""
    rest = f", and {unknown} run{'s' if unknown > 1 else ''} of which no earlier one tells" if unknown else ""
    return f"about {minutes(sum(times))} of runs one after the other{side_by_side}{rest}"
