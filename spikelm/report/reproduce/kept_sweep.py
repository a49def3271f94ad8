"""spikelm-report scores --keep DIR: the results of a sweep as a store of result files, with its table as the index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spikelm.errors import ConfigError
from spikelm.report.query.sweep_runs import jobs_of
from spikelm.report.reproduce.reference import keep, with_origins
from spikelm.report.scores import show_scores
from spikelm.store.store import Store

INDEX = "README.md"


def keep_sweep(overrides: Sequence[str], root: Path, target: Path) -> Path:
    """Copy the results of the finished runs of a sweep, and of those they were made from, into `target`.

    What is there stays: runs are added, and the index is the table of this sweep. All of it is of one scale and one
    source, which the index says.
    """
    jobs = jobs_of(overrides, root)
    places = {(job.config.scale, job.config.rows_from) for job in jobs}
    if len(places) > 1:
        raise ConfigError(f"--keep takes runs of one scale and source, these are of {len(places)}", "choose one")
    _refuse_other_runs(target, *places.pop())
    runs = with_origins(Store(root), [job.run.id for job in jobs])
    if not runs:
        raise ConfigError(f"no run of this sweep is finished in {root}", "spikelm-run -m with the same words runs them")
    for run, result in runs.items():
        keep(run, result, target)
    return show_scores(overrides, target, target / INDEX)


def _refuse_other_runs(target: Path, scale: str, source: str) -> None:
    """Runs of another scale or source are never kept in one folder."""
    for run in Store(target).runs() if target.exists() else ():
        result = run.result()
        if result and (result.scale, result.source.name) != (scale, source) and result.score is not None:
            what = f"{target} holds runs of scale {result.scale}, source {result.source.name}"
            raise ConfigError(f"{what}, and these are of scale {scale}, source {source}", "--keep ANOTHER")
