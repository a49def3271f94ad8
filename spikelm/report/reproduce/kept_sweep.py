"""spikelm-report scores --keep DIR: the results of sweeps as a store of result files, with a line for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spikelm.catalog.kinds import UNLABELLED
from spikelm.catalog.quantities import duration, significant
from spikelm.errors import ConfigError
from spikelm.report.query.sweep_runs import jobs_of
from spikelm.report.reproduce.reference import keep, with_origins
from spikelm.report.tables.formats import markdown_table
from spikelm.runs.labels import title
from spikelm.store.atomic import write_atomic
from spikelm.store.result import PRINTED, Result, number_text
from spikelm.store.store import Run, Store

HEADINGS = ("task", "system", "seed", "score", "events", "mJ fp32", "of the plain model", "time", "run")


def keep_sweep(overrides: Sequence[str], root: Path, target: Path) -> Path:
    """Copy the results of the finished runs of a sweep, and of those they were made from, into `target`.

    What is there stays: runs are added. All scores are of one scale and one source, which the index says; a pretrained
    model reads no labels, so that it has none to tune on and is not asked.
    """
    jobs = jobs_of(overrides, root)
    runs = with_origins(Store(root), [job.run.id for job in jobs])
    if not runs:
        raise ConfigError(f"no run of this sweep is finished in {root}", "spikelm-run -m with the same words runs them")
    there = Store(target).results() if target.exists() else []
    every = [*runs.values(), *there]
    places = {(result.scale, result.source.name) for result in every if result.config.task.kind not in UNLABELLED}
    places = places or {(result.scale, result.source.name) for result in every}
    if len(places) > 1:
        told = " and ".join(f"scale {scale}, source {source}" for scale, source in sorted(places))
        raise ConfigError(f"{target} would hold runs of {told}, which are never mixed", "--keep ANOTHER")
    for run, result in runs.items():
        keep(run, result, target)
    index = target / "README.md"
    write_atomic(index, _index(target, *places.pop()))
    return index


def _index(target: Path, scale: str, source: str) -> str:
    """One line for each result, by task, system and seed, with a link to its file."""
    results = [(run, result) for run in Store(target).runs() if (result := run.result())]
    lines = sorted(_line(run, result) for run, result in results)
    return "\n".join(
        [
            f"# Results at scale={scale}, source={source}",
            "",
            "Result files without weights, kept by `spikelm-report scores ... --keep DIR`. The folder is a store:"
            " `spikelm-report runs --runs-dir DIR` lists it, and `spikelm-report run ID --runs-dir DIR` shows one.",
            "",
            *markdown_table(HEADINGS, lines),
            "",
        ]
    )


def _line(run: Run, result: Result) -> list[str]:
    task = result.task.removeprefix("glue/")
    energy, plain = result.energy_mj.fp32, result.energy_ann_mj.fp32
    rate = result.firing_rate.mean
    return [
        f"{task} ({PRINTED[task]})" if task in PRINTED else task,
        title(result.config),
        str(result.seed),
        number_text(result.score),
        "" if rate is None else f"{result.config.time_steps * rate:.2f}",
        "" if energy is None else significant(energy),
        f"1/{plain / energy:.1f}" if energy and plain else "",
        duration(result.seconds),
        f"[{run.id[:8]}]({run.directory.parent.name}/{run.directory.name}/result.json)",
    ]
