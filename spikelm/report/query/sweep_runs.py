"""The runs that a sweep's overrides name: the same words as after spikelm-run -m, read from the store, not run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spikelm.config.compose import load_config
from spikelm.config.overrides import sweep_values
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title
from spikelm.store.store import Run

SAME_SYSTEM = ("task", "seed", "runs_dir")  # overrides that make no other system


@dataclass(frozen=True)
class Job:
    """One job of a sweep: its overrides, composed, and its run in the store, finished or not."""

    overrides: tuple[str, ...]
    config: Config
    run: Run

    @property
    def command(self) -> str:
        """What makes it."""
        return " ".join(["spikelm-run", *self.overrides])


def jobs_of(overrides: Sequence[str], root: Path | None = None) -> list[Job]:
    """Every combination, as Hydra's sweeper makes it; what names the same run (T of the ANN) comes once.

    The runs are those of the store `root`, where it is given.
    """
    if misplaced := [override for override in overrides if override.startswith("-")]:
        raise ConfigError(f"{misplaced[0]} is not an override", "options come before the overrides")
    jobs: dict[str, Job] = {}
    for combination in itertools.product(*sweep_values(overrides)):
        config = load_config(combination)
        run = open_run(config, root)
        jobs.setdefault(run.id, Job(tuple(combination), config, run))
    return list(jobs.values())


def system_names(jobs: Sequence[Job]) -> list[str]:
    """What the system of each job is called, by which no two that differ are the same: T and what else was swept.

    Tasks and seeds do not make another system.
    """
    titles = [title(job.config) for job in jobs]
    steps: dict[str, set[int]] = {}
    for name, job in zip(titles, jobs, strict=True):
        steps.setdefault(name, set()).add(job.config.time_steps)
    named = [
        f"{name} T={job.config.time_steps}" if len(steps[name]) > 1 else name
        for name, job in zip(titles, jobs, strict=True)
    ]
    settings = [
        {key: value for key, _, value in (word.partition("=") for word in job.overrides) if key not in SAME_SYSTEM}
        for job in jobs
    ]
    swept = []
    for name, own in zip(named, settings, strict=True):
        alike = [other for other_name, other in zip(named, settings, strict=True) if other_name == name]
        keys = [key for key in own if len({other.get(key) for other in alike}) > 1]
        swept.append(f"{name} ({', '.join(f'{key}={own[key]}' for key in keys)})" if keys else name)
    return swept
