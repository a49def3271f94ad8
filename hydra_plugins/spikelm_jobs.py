"""The sweeper of `hydra/sweeper=jobs`: runs that are no product of lists, each a line of overrides in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override

from spikelm.sweeps.job_file import read_jobs


class JobsSweeper(BasicSweeper):
    """Each line of `file`, with the overrides of the command line; lists in these multiply, as in any sweep."""

    def __init__(self, file: str) -> None:
        super().__init__(max_batch_size=None)
        self.file = Path(file)

    def split_arguments(  # type: ignore[override]
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        """All jobs as one batch, for the launcher to place."""
        (common,) = BasicSweeper.split_arguments(overrides, max_batch_size)
        return [[[*job, *words] for job in read_jobs(self.file) for words in common]]

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Each override has been checked before (spikelm/sweeps/job_file.py); composing hundreds takes a minute."""
