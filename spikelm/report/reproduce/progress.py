"""Progress of a reproduction while its sweep runs in another process, read from the store alone."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spikelm.catalog.quantities import duration
from spikelm.report.reproduce.needs import Need
from spikelm.store.result import Result
from spikelm.sweeps.summary import JobRecord, records_of

EVERY = 2.0  # seconds between two looks at the store
TRUST = 0.1  # how much of a plan has to be done to tell its pace as well as the plan does
LAST = 6  # finished runs that stay on the screen


class Progress:
    """Which runs of a plan have finished, which are going on and at which step, and about how long the rest takes."""

    def __init__(self, needs: Sequence[Need], console: Console, at_once: int = 1) -> None:
        self.at_once = at_once
        self.todo = [need for need in needs if not need.finished or need.again]
        self.console = console
        self.started = time.monotonic()
        self.done: dict[str, str] = {}

    def look(self) -> list[Need]:
        """Take note of what has finished since; those that have."""
        new = []
        for need in self.todo:
            if need.again and not (need.run.directory / "model").is_dir():
                continue
            if need.run.id not in self.done and (result := need.run.result()) is not None:
                self.done[need.run.id] = summary(need, result)
                new.append(need)
        return new

    def follow(self, process: subprocess.Popen[Any]) -> int:
        """Until the process ends: a live table on a terminal, one line per finished run elsewhere. Its exit code."""
        if not self.console.is_terminal:
            while process.poll() is None:
                time.sleep(EVERY / 4)
                self._tell()
            self._tell()
            return process.returncode
        with Live(self.shown(), console=self.console, refresh_per_second=2, transient=False) as live:
            while process.poll() is None:
                time.sleep(EVERY)
                self.look()
                live.update(self.shown())
            self.look()
            live.update(self.shown())
        return process.returncode

    def _tell(self) -> None:
        for need in self.look():
            state = f"{len(self.done)} of {len(self.todo)}"
            self.console.print(f"  [{state}] {self.done[need.run.id]}", highlight=False, markup=False, soft_wrap=True)

    def left(self) -> str:
        """About how long the rest takes; what has run so far corrects the estimate."""
        rest = [need.seconds for need in self.todo if need.run.id not in self.done]
        if not rest or any(seconds is None for seconds in rest):
            return ""
        spent = sum(need.seconds or 0.0 for need in self.todo if need.run.id in self.done)
        left = sum(seconds or 0.0 for seconds in rest)
        trust = TRUST * (spent + left)  # in the plan, so that the first short run does not decide alone
        pace = (time.monotonic() - self.started + trust / self.at_once) / (spent + trust)
        return f", about {duration(left * pace)} left"

    def shown(self) -> Group:
        """The live picture."""
        passed = duration(time.monotonic() - self.started)
        title = Text(f"{len(self.done)} of {len(self.todo)} runs, {passed} so far{self.left()}")
        bar = Table.grid()  # a bar by itself does not end its line
        bar.add_row(ProgressBar(total=max(1, len(self.todo)), completed=len(self.done), width=60))
        table = Table.grid(padding=(0, 2))
        for text in list(self.done.values())[-LAST:]:
            table.add_row("finished", text)
        for need in self.todo:
            if need.run.id not in self.done and need.run.state == "running":
                table.add_row("running", f"{need.title}{step_of(need)}")
        return Group(title, bar, table)


def summary(need: Need, result: Result) -> str:
    """A finished run in a line."""
    return f"{need.title}: {result.first_metric}, {duration(result.seconds)}, run {need.run.id[:8]}"


def step_of(need: Need) -> str:
    """The last step that a run has logged."""
    rows = need.run.metrics()
    return f", step {max(step for step, _, _ in rows)}" if rows else ", starting"


def failures(folder: Path) -> list[JobRecord]:
    """The failed jobs of a sweep, from the records it left."""
    return [record for record in records_of(folder) if record.status == "failed"]
