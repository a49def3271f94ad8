"""One run from config to result: look it up, make what it needs, train, measure, write it down."""

from __future__ import annotations

import contextlib
import resource
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from spikelm.machine.environment import environment
from spikelm.errors import SpikeLMError
from spikelm.runs.identity import id_of
from spikelm.store.checksums import damaged, file_sums, set_aside
from spikelm.runs.labels import label, labels, title
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.records import cannot_write, disk_is_full, plain
from spikelm.store.headline import headline
from spikelm.config.schema import Config
from spikelm.config.redact import redacted
from spikelm.machine.signals import listening
from spikelm.store.store import Run, Store
from spikelm.runs.tracking import Tracker, make_tracker

CHECKSUMMED = ("config.yaml", "environment.json", "metrics.csv", "model")  # of a run, in its result


def run_and_show(config: Config) -> dict[str, Any]:
    """Run (or find) it and print its result."""
    from spikelm.report.show_result import show_result

    console = Console()
    result = run_experiment(config, console)
    show_result(result, console)
    return result


def open_run(config: Config) -> Run:
    """The run of a config, on disk or not yet."""
    return Store(Path(config.runs_dir)).open(id_of(config), label(config), config.task.name)


def run_experiment(config: Config, console: Console, whole: bool = False) -> dict[str, Any]:
    """The finished result of a config, with its `directory`; nothing is run twice.

    With `whole` its model is needed too, and made again from the last checkpoint if its files are damaged.
    """
    with listening():
        return _run_or_find(config, console, whole)


def _run_or_find(config: Config, console: Console, whole: bool) -> dict[str, Any]:
    run = open_run(config)
    if not config.force and (found := _found(run, whole)) is not None:
        console.print(f"finished before, from the store: {run.directory} (force=true runs it again)", soft_wrap=True)
        return {**found, "directory": str(run.directory)}
    needed: dict[str, dict[str, Any]] = {}
    for role, prerequisite in prerequisites(config).items():
        if open_run(prerequisite).result() is None:
            console.print(f"first the {role} model: {prerequisite.task.name} {label(prerequisite)}", soft_wrap=True)
        needed[role] = run_experiment(prerequisite, console, whole=True)
    with run.lock(message=console.print):
        if not config.force and (found := _found(run, whole)) is not None:  # made by another while we waited
            return {**found, "directory": str(run.directory)}
        if config.force:
            run.reset()
        elif (result := run.result()) is not None:
            names = ", ".join(_damaged(run, result))
            set_aside(run.directory / "result.json")
            said = f"{run.directory}: {names} missing or not as written (checksum); made again from the last checkpoint"
            console.print(f"warning: {said}", style="yellow", soft_wrap=True)
        return {**_run(config, run, needed, console), "directory": str(run.directory)}


def _found(run: Run, whole: bool) -> dict[str, Any] | None:
    result = run.result()
    return None if result is not None and whole and _damaged(run, result) else result


def _damaged(run: Run, result: dict[str, Any]) -> list[str]:
    """The files of a run's model that are not what its result says; the oldest results say nothing of them."""
    if not (run.directory / "model").is_dir():
        return ["model"]
    return damaged(run.directory, result.get("files", {}), "model/")


def _run(config: Config, run: Run, needed: dict[str, dict[str, Any]], console: Console) -> dict[str, Any]:
    """Train and measure with records and tracker around it; whatever happens, both are closed."""
    from spikelm.training.launch import train

    about = environment()
    run.start(asdict(config), about)
    console.print(f"run {run.id} in {run.directory}", soft_wrap=True, highlight=False)
    tracker = _tracker(config, run, console)
    ok = False
    started = time.monotonic()
    try:
        directories = {role: Path(result["directory"]) for role, result in needed.items()}
        trained = train(config, run, directories, tracker.log, console)
        result = {
            **trained.record(),
            "scale": config.scale,
            "task": config.task.name,
            "system": title(config),
            "recipe": config.recipe,
            "pretrained": needed["pretrained"]["run_id"] if "pretrained" in needed else None,
            "teacher": needed["teacher"]["run_id"] if "teacher" in needed else None,
            "teacher_metrics": needed["teacher"]["metrics"] if "teacher" in needed else {},
            "seconds": round(time.monotonic() - started, 2),
            "peak_memory_mb": _peak_memory_mb(config.trainer.devices),
            "seed": config.seed,
            "git_commit": about["git_commit"],
            "versions": about["versions"],
            "config": asdict(config),
            "files": file_sums(run.directory, [run.directory / name for name in CHECKSUMMED]),
        }
        finished = run.finish(result)
        tracker.summary(_summary(finished))
        tracker.table(finished["steps"], "samples", finished.get("samples", []))
        ok = True
        return finished
    except SpikeLMError as error:
        _record(run, error)
        raise
    except Exception as error:
        raise _failure(error, config, run) from error
    finally:
        tracker.finish(ok)


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
    return make_tracker(
        mode=config.tracker.mode,  # type: ignore[arg-type]
        project=config.tracker.project,
        entity=config.tracker.entity,
        run_id=run.id,
        name=f"{config.task.name} {label(config)}",
        group=known.group,
        job_type=known.job_type,
        tags=known.tags,
        config=plain(asdict(config)),
        directory=run.directory,
        notify=console.print,
    )


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    rate, metrics = result["firing_rate"], result["metrics"]
    ours, ann = result["energy_mj"].get("fp32"), (result.get("energy_ann_mj") or {}).get("fp32")
    return {
        **metrics,
        **({"score": headline(result["task"], metrics)} if metrics else {}),
        **({"energy_of_ann": ours / ann} if ours is not None and ann else {}),
        **{f"energy_mj/{kind}": value for kind, value in result["energy_mj"].items()},
        "firing_rate": rate["mean"],
        "spike_driven": result["spike_driven"]["verdict"],
        "parameters": result["parameters"],
    }
