"""One run from config to result: look it up, make what it needs, train, measure, write it down."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from spikelm.config.devices import device_count
from spikelm.config.recorded import to_record
from spikelm.config.redact import redacted
from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.machine.disk import cannot_write, disk_is_full
from spikelm.machine.environment import Environment, environment
from spikelm.machine.services import hub_silence
from spikelm.machine.signals import listening
from spikelm.machine.torch_build import build_of
from spikelm.runs.converted_blocks import block_rows
from spikelm.runs.identity import id_of
from spikelm.runs.labels import label, labels, title, tracked_name
from spikelm.runs.prerequisites import prerequisites
from spikelm.runs.tracking import TrackedRun, Tracker, make_tracker
from spikelm.store.atomic import plain
from spikelm.store.checksums import damaged, file_sums
from spikelm.store.store import RESULT_ONLY, Run, Store, now

if TYPE_CHECKING:
    from spikelm.store.result import Result
    from spikelm.training.run_stage import Trained

#: what is first said of a run that has no result, by its state
KNOWN = {
    "new": "is a new run",
    "running": "is running in another process",
    "interrupted": "was interrupted and goes on",
    "failed": "failed and is tried again",
}
CHECKSUMMED = ("config.yaml", "environment.json", "metrics.csv", "model")  # of a run, in its result


@dataclass(frozen=True)
class Finished:
    """A run that is done: its result and where it is."""

    result: Result
    directory: Path


def open_run(config: Config, root: Path | None = None) -> Run:
    """The run of a config, on disk or not yet: in its own store, or in the store `root`, which is only read."""
    return Store(root or Path(config.runs_dir)).open(id_of(config), label(config), config.task.name)


def run_experiment(config: Config, console: Console, whole: bool = False) -> Finished:
    """The finished run of a config; nothing is run twice.

    With `whole` its model is needed too, and made again if its files are damaged.
    """
    with listening():
        return _run_or_find(config, console, whole)


def _run_or_find(config: Config, console: Console, whole: bool) -> Finished:
    from spikelm.runs.preparation import check_prepared, check_surveyed

    check_surveyed(config, console)
    run = open_run(config)
    if not config.force and (result := _usable_result(run, whole)) is not None:
        _forget_leftovers(run, result)
        only = f"{RESULT_ONLY}, without weights; " if run.has_only(result) else ""
        console.print(
            f"finished before, from the store: {run.directory} ({only}force=true runs it again)", soft_wrap=True
        )
        return Finished(result, run.directory)
    asks_hub = config.source.name == "hub" and not config.source.mirror
    if asks_hub and not whole and (silence := hub_silence()):  # of what is needed first it was said already
        said = f"warning: {silence}; what is not in the hub's cache cannot be read"
        console.print(said, style="yellow", soft_wrap=True)
    if "torch" not in sys.modules:
        about = KNOWN.get(run.state, "is made again")
        console.print(f"{config.task.name} {label(config)} {about} ({run.id}); loading torch", soft_wrap=True)
    from spikelm.training.launch import refuse_what_cannot_train  # takes seconds to load, and a finished run needs none

    refuse_what_cannot_train(config)
    check_prepared(config, console)
    needed: dict[str, Finished] = {}
    for role, prerequisite in prerequisites(config).items():
        if open_run(prerequisite).result() is None:
            console.print(f"first the {role} model: {prerequisite.task.name} {label(prerequisite)}", soft_wrap=True)
        needed[role] = run_experiment(prerequisite, console, whole=True)
    with run.lock(message=console.print):
        if not config.force and (result := _usable_result(run, whole)) is not None:  # made while we waited
            return Finished(result, run.directory)
        if config.force:
            run.reset()
        else:
            _clear_the_way(run, console)
        return Finished(_run(config, run, needed, console), run.directory)


def _clear_the_way(run: Run, console: Console) -> None:
    """Put aside the result of a run that is made again all the same, and say why it is."""
    result, problem = run.examine()
    if problem is not None:
        aside = run.put_aside_result("corrupt")
        said = f"warning: {run.directory / 'result.json'} {problem}; moved to {aside.name if aside else ''}"
    elif result is None:
        return
    elif run.has_only(result):
        run.put_aside_result("earlier")
        said = f"{run.directory}: {RESULT_ONLY}, and its weights are needed: the run is made again"
    else:
        names = ", ".join(_damaged(run, result))
        run.put_aside_result("damaged")
        kept = " from the last checkpoint" if any(run.checkpoints.glob("*.ckpt")) else ""
        said = f"warning: {run.directory}: {names} missing or not as written (checksum); made again{kept}"
    console.print(said, style="yellow" if said.startswith("warning") else None, soft_wrap=True)


def _usable_result(run: Run, whole: bool) -> Result | None:
    """The result of a finished run; None where its model is needed and damaged."""
    result = run.result()
    return None if result is not None and whole and _damaged(run, result) else result


def _forget_leftovers(run: Run, result: Result) -> None:
    """Checkpoints of a run that was ended between its result and their removal; not while they could be of use."""
    if run.checkpoints.is_dir() and not _damaged(run, result):
        with contextlib.suppress(SpikeLMError, OSError), run.lock(wait=False):  # a store may be read-only
            run.forget_checkpoints()


def _damaged(run: Run, result: Result) -> list[str]:
    """The files of a run's model that are not what its result says."""
    if not (run.directory / "model").is_dir():
        return ["model"]
    return damaged(run.directory, result.files, "model/")


def _run(config: Config, run: Run, needed: Mapping[str, Finished], console: Console) -> Result:
    """Train and measure with records and tracker around it; whatever happens, both are closed."""
    import torch

    from spikelm.training.launch import train

    about = environment(build_of(torch))
    run.start(config, about)
    console.print(f"run {run.id} in {run.directory}", soft_wrap=True, highlight=False)
    tracker = _tracker(config, run, console)
    ok = False
    started = time.monotonic()
    try:
        directories = {role: finished.directory for role, finished in needed.items()}
        trained = train(config, run, directories, tracker.log, console)
        seconds = round(time.monotonic() - started, 2)
        result = run.finish(_result(config, run, needed, about, trained, seconds))
        run.forget_checkpoints()  # only now: until the result is there a run goes on from them
        tracker.summary(_summary(result))
        tracker.table(result.steps, "conversion", block_rows(result))
        tracker.table(result.steps, "samples", [sample.model_dump() for sample in result.samples])
        ok = True
        return result
    except SpikeLMError as error:
        _record(run, error)
        raise
    except Exception as error:
        raise _failure(error, config, run) from error
    finally:
        tracker.finish(ok)


def _result(
    config: Config,
    run: Run,
    needed: Mapping[str, Finished],
    about: Environment,
    trained: Trained,
    seconds: float,
) -> Result:
    """What training and measuring gave, with everything else that a result says."""
    from spikelm.store.result import Result

    results = {role: finished.result for role, finished in needed.items()}
    record = plain(trained.record())
    if "conversion" in record and "teacher" in results and results["teacher"].task == config.task.name:
        record["conversion"]["plain_metrics"] = results["teacher"].metrics
    return Result(
        **record,
        run_id=run.id,
        finished_at=now(),
        task=config.task.name,
        system=title(config),
        scale=config.scale,
        recipe=config.recipe,
        seed=config.seed,
        pretrained=results["pretrained"].run_id if "pretrained" in results else None,
        converted=results["converted"].run_id if "converted" in results else None,
        teacher=results["teacher"].run_id if "teacher" in results else None,
        teacher_metrics=results["teacher"].metrics if "teacher" in results else {},
        seconds=seconds,
        peak_memory_mb=_peak_memory_mb(device_count(config)),
        git_commit=about.git_commit,
        versions=about.versions,
        config=config,
        files=file_sums(run.directory, [run.directory / name for name in CHECKSUMMED]),
    )


def _record(run: Run, error: Exception) -> None:
    """Say in the run's directory why it stopped; a disk that is full takes not even that."""
    with contextlib.suppress(SpikeLMError, OSError):
        run.fail(redacted(str(error) if isinstance(error, SpikeLMError) else f"{type(error).__name__}: {error}"))


def _failure(error: Exception, config: Config, run: Run) -> SpikeLMError:
    """What a person is told of an unexpected error."""
    from spikelm.training.devices.out_of_memory import out_of_memory

    _record(run, error)
    with contextlib.suppress(OSError):
        text = "".join(traceback.format_exception(error))
        (run.directory / "traceback.txt").write_text(redacted(text))
    if disk_is_full(error):
        return cannot_write(run.directory, error)
    if (told := out_of_memory(error, config)) is not None:
        return told
    return SpikeLMError(
        f"run {run.id} failed: {type(error).__name__}: {redacted(str(error))}",
        f"see {run.directory / 'traceback.txt'}; the same command goes on from the last checkpoint",
    )


def _peak_memory_mb(devices: int) -> float:
    """Of this process, or of the largest of those that trained."""
    whose = [resource.RUSAGE_SELF] if devices == 1 else [resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN]
    return max(resource.getrusage(who).ru_maxrss for who in whose) / 1024


def _tracker(config: Config, run: Run, console: Console) -> Tracker:
    known = labels(config)
    tracked = TrackedRun(
        project=config.tracker.project,
        entity=config.tracker.entity,
        run_id=run.id,
        name=tracked_name(config),
        group=known.group,
        job_type=known.job_type,
        tags=known.tags,
        config=plain(to_record(config)),
        directory=run.directory,
    )

    def warn(message: str) -> None:
        console.print(f"warning: {message}", style="yellow", soft_wrap=True, markup=False, highlight=False)

    return make_tracker(tracked, config.tracker.mode, warn)  # type: ignore[arg-type]


def _summary(result: Result) -> dict[str, Any]:
    """The final values that a tracker shows."""
    return {
        **result.metrics,
        **({"score": result.score} if result.metrics else {}),
        **({"energy_of_ann": result.energy_of_ann} if result.energy_of_ann is not None else {}),
        **{f"energy_mj/{precision}": value for precision, value in result.energy_mj.items()},
        **_modelled(result),
        "firing_rate": result.firing_rate.mean,
        "spike_driven": result.spike_driven.verdict,
        "parameters": result.parameters,
    }


def _modelled(result: Result) -> dict[str, Any]:
    """The energy card's lines, each by estimator and arithmetic, for this network and its quantised twin."""
    lines = result.energy_card.modelled if result.energy_card else []
    names = ("network", "twin") if result.spikes else ("network",)
    return {f"energy_card/{line.key}/{name}": getattr(line, name) for line in lines for name in names}
