"""How long a run takes by earlier runs: those of the same system, else of the same kind of task."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from spikelm.config.settings.schema import Config
from spikelm.runs.cost import planned_steps
from spikelm.store.result import Result
from spikelm.store.store import Store


class Timings:
    """Seconds of finished runs, to tell those of others by; where there are none, of runs in runs/reference."""

    def __init__(self, results: Iterable[Result], elsewhere: Iterable[Result] = ()) -> None:
        self.elsewhere = Timings(others) if (others := list(elsewhere)) else None
        self.same: dict[tuple[str | int, ...], list[float]] = {}  # of the same system and task
        self.kind: dict[tuple[str, str], list[float]] = {}  # of the same kind of task
        self.paces: dict[tuple[str, str], list[float]] = {}  # the same, for one step and one time step
        for result in results:
            config = result.config
            group = _group(config)
            self.same.setdefault(_system(config), []).append(result.seconds)
            self.kind.setdefault(group, []).append(result.seconds)
            if result.steps:
                pace = result.seconds / (result.steps * config.time_steps)
                self.paces.setdefault(group, []).append(pace)

    def about(self, config: Config) -> float | None:
        """Of the same system and task; else by the steps of a task of its kind; else as long as one of its kind.

        Of several equal runs the quickest counts: the others shared their cores with other work.
        """
        seconds = self._about(config)
        return self.elsewhere.about(config) if seconds is None and self.elsewhere else seconds

    def _about(self, config: Config) -> float | None:
        group = _group(config)
        if same := self.same.get(_system(config)):
            return min(same)
        if (steps := planned_steps(config)) and (paces := self.paces.get(group)):
            return statistics.median(paces) * steps * config.time_steps
        return statistics.median(self.kind[group]) if group in self.kind else None


@lru_cache(maxsize=1)
def timings_of(root: Path) -> Timings:
    """By the runs of a store and of the reference in it, read once."""
    return Timings(Store(root).results(), Store(root / "reference").results())


def _system(config: Config) -> tuple[str | int, ...]:
    """What runs that take equally long have in common."""
    return (*_group(config), config.task.name, config.neuron.name, config.time_steps, config.backbone.kind)


def _group(config: Config) -> tuple[str, str]:
    """The scale and the kind of task; a conversion of it is no training of it."""
    return config.scale, f"{config.task.kind}, converted" if config.only_converts else config.task.kind
