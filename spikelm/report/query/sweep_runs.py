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
from spikelm.store.store import Run


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
