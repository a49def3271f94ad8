"""What a reproduction still has to run: every run and the runs it needs first, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spikelm.config.devices import device_count
from spikelm.config.settings.schema import Config
from spikelm.report.query.selection import SelectedRun
from spikelm.runs.cost import Cost, cost_of
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title, with_steps
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
    cost: Cost
    role: str = ""  # of one that nobody asked for: pretrained or teacher
    needed: bool = False  # by another one that is to be run
    again: bool = False  # finished and needed, but its weights are gone: made again first

    @property
    def title(self) -> str:
        return f"{self.config.task.name} {with_steps(self.system, self.config)}"

    @property
    def system(self) -> str:
        """What people call the model."""
        return title(self.config)

    @property
    def to_do(self) -> bool:
        """Whether it is run: not finished, or made again."""
        return not self.finished or self.again

    @property
    def wide(self) -> bool:
        """Whether it trains on several devices at a time."""
        return device_count(self.config) > 1


def needs_of(wanted: Sequence[SelectedRun], timings: Timings) -> list[Need]:
    """The wanted runs with all they need, each once, what is needed first coming first."""
    needs: dict[str, Need] = {}
    asked = {one.run.id: one.config for one in wanted}
    root = wanted[0].run.root if wanted else None
    waited_for: set[str] = set()
    again: set[str] = set()

    def visit(config: Config, run: Run, finished: bool, role: str = "") -> None:
        if run.id in needs:
            return
        if not finished:
            visit_before(config)
        config = asked.get(run.id, config)  # by the name under which it was asked for
        seconds = None if finished else timings.about(config)
        needs[run.id] = Need(config, run, finished, run.id in asked, seconds, cost_of(config), role)

    def visit_before(config: Config) -> None:
        for role, needed in prerequisites(config).items():
            before = open_run(needed, root)
            waited_for.add(before.id)
            if before.finished and before.id not in again and not (before.directory / "model").is_dir():
                again.add(before.id)
                visit_before(needed)
            visit(needed, before, before.finished, role)

    for one in wanted:
        visit(one.config, one.run, one.result is not None)
    return [
        replace(need, needed=id in waited_for, again=True, seconds=timings.about(need.config))
        if id in again
        else replace(need, needed=id in waited_for)
        for id, need in needs.items()
    ]
