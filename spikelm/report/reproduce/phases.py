"""The order of a reproduction on a machine with several GPUs: what trains on all of them, then one run per GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from spikelm.config.settings.schema import Config
from spikelm.report.query.selection import SelectedRun
from spikelm.report.reproduce.launcher import BASIC
from spikelm.report.reproduce.needs import Need
from spikelm.runs.experiment import open_run
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.store import Run


@dataclass(frozen=True)
class Phase:
    """Runs of one sweep, its launcher, and the runs of earlier phases that some of them wait for."""

    runs: list[SelectedRun]
    launcher: Sequence[str]
    about: str
    waited_for: dict[str, list[Run]]  # by the id of the run that waits

    def __str__(self) -> str:
        return f"{self.about}by {' '.join(self.launcher)} (another one: --launcher)"

    def possible(self, console: Console) -> list[SelectedRun]:
        """Its runs without those that would have to train on one GPU what failed on all of them."""
        stuck = [one for one in self.runs if any(not run.finished for run in self.waited_for.get(one.run.id, []))]
        if stuck:
            console.print(f"  left out: {len(stuck)} runs that need one that failed", style="yellow", highlight=False)
        return [one for one in self.runs if one not in stuck]


def phases(missing: Sequence[SelectedRun], needs: Sequence[Need], launcher: Sequence[str]) -> list[Phase]:
    """One sweep, or two where some runs train on all GPUs and the others side by side, each on one.

    What nobody asked for and trains on all GPUs, a teacher's pretraining for example, is made by the first run that
    needs it: that one goes with the first phase.
    """
    wide = {need.run.id: need for need in needs if need.to_do and need.wide and need.config.trainer.devices is None}
    if "hydra/launcher=parallel" not in launcher or not wide:
        return [Phase(list(missing), launcher, "", {})]
    first = [one for one in missing if one.run.id in wide]
    made = {one.run.id for one in first}
    waited_for: dict[str, list[Run]] = {}
    rest = []
    for one in missing:
        if one.run.id in wide:
            continue
        before = [wide[id] for id in _before(one.config) if id in wide]
        if new := {need.run.id for need in before if not need.asked} - made:
            made |= new
            first.append(one)
            continue
        waited_for[one.run.id] = [need.run for need in before]
        rest.append(one)
    on_all = Phase(first, [BASIC], f"first {len(first)} runs one after the other, on all GPUs where they can: ", {})
    return [on_all, Phase(rest, launcher, f"{len(rest)} runs side by side, one GPU each: ", waited_for)]


def _before(config: Config) -> set[str]:
    """The ids of all runs that a run needs, those of its prerequisites included."""
    ids: set[str] = set()
    for needed in prerequisites(config).values():
        ids |= {open_run(needed).id} | _before(needed)
    return ids
