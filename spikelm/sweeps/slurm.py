"""A sweep as an array of Slurm jobs: queued again when they are stopped, waited for, and each accounted for.

submitit submits them, and queues a job again on its own signal (SIGUSR2, sent before the time limit). How jobs ended it
asks sacct, which not every cluster has, and it gives a sweep up at the first that left no result: both are done here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf, open_dict

from spikelm.config.redact import redacted
from spikelm.machine.signals import INTERRUPTED, Stopped, listening
from spikelm.sweeps.summary import RECORD, JobRecord, write_record

#: states that a job does not leave by itself
ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)
#: of these, the ones that are not the job's own doing
TAKEN_AWAY = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED")
RETURNS = 20  # times that a job which was taken away is asked back
PATIENCE = 20.0  # seconds that an ended job's files may take to be seen from here
SLOWEST = 30.0  # seconds between two questions to a busy controller


class Job(NamedTuple):
    """One job of the array, as seen by the one that waits."""

    number: int
    overrides: list[str]
    folder: Path  # of its record
    id: str
    result: Path  # what submitit leaves when the job has come to its end
    log: Path


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Around a job on its node: asked to stop it keeps its step, is queued again and ends with code 75."""
    try:
        with listening():
            yield
    except Stopped as stopped:
        print(stopped, file=sys.stderr, flush=True)
        if stopped.exit_code != INTERRUPTED and queue_again():
            print("queued again", file=sys.stderr, flush=True)
        sys.exit(stopped.exit_code)


def queue_again() -> bool:
    """Queue the job that this process is once more.

    Only while it counts as running: it was sent a signal alone then. Else Slurm has cancelled or requeued it itself.
    """
    array, own = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ["SLURM_JOB_ID"]
    id = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else own
    return (states([id]) or {}).get(id) == "RUNNING" and _requeue(id)


def _requeue(id: str) -> bool:
    done = subprocess.run(["scontrol", "requeue", id], capture_output=True, text=True)
    if done.returncode:
        print(f"job {id} cannot be queued again: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


def states(ids: Sequence[str]) -> dict[str, str] | None:
    """State of each job that Slurm still knows, None when it does not answer."""
    arrays = sorted({id.partition("_")[0] for id in ids})
    words = ["--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={','.join(arrays)}"]
    done = subprocess.run(["squeue", *words], capture_output=True, text=True)
    if done.returncode and "Invalid job id" not in done.stderr:
        return None
    known = dict(line.strip().split("|", 1) for line in done.stdout.splitlines() if "|" in line)
    return {id: known[id] for id in ids if id in known}


def run_array(launcher: Any, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """Submit the jobs, wait for all of them, write down those that left no record; never raises for a failed job."""
    planned = [_planned(launcher, list(overrides), first + n) for n, overrides in enumerate(job_overrides)]
    for _, folder in planned:
        (folder / RECORD).unlink(missing_ok=True)  # of an earlier sweep into the same folder
    submitted = _submit(launcher, job_overrides, first)
    jobs = [
        Job(first + n, overrides, folder, str(one.job_id), one.paths.result_pickle, one.paths.stderr)
        for n, ((overrides, folder), one) in enumerate(zip(planned, submitted, strict=True))
    ]
    array = jobs[0].id.partition("_")[0]
    print(f"Slurm job {array}: {len(jobs)} jobs, their output in {jobs[0].log.parent.parent}", flush=True)
    try:
        ends = wait(jobs)
    except Stopped:
        print(f"the jobs go on without this command; `scancel {array}` ends them", file=sys.stderr, flush=True)
        raise
    for job in jobs:
        if not _there(job.folder / RECORD):
            _write_down(job, ends[job.number])
    return [_returned() for _ in jobs]


def _planned(launcher: Any, overrides: list[str], number: int) -> tuple[list[str], Path]:
    """The overrides of a job without Hydra's own, and the folder of its record."""
    config = launcher.hydra_context.config_loader.load_sweep_config(launcher.config, overrides)
    with open_dict(config):
        config.hydra.job.num, config.hydra.job.id = number, str(number)
    return list(config.hydra.overrides.task), Path(config.hydra.sweep.dir).absolute() / str(config.hydra.sweep.subdir)


def _submit(launcher: Any, job_overrides: Sequence[Sequence[str]], first: int) -> list[Any]:
    import submitit
    from hydra.core.singleton import Singleton
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    params = dict(launcher.params)
    folder, timeouts = params.pop("submitit_folder"), params.pop("max_num_timeout")
    shared = set(OmegaConf.structured(BaseQueueConf).keys())
    state = Singleton.get_state()
    jobs = [(list(one), "hydra.sweep.dir", first + n, str(first + n), state) for n, one in enumerate(job_overrides)]
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster="slurm", slurm_max_num_timeout=timeouts)
        executor.update_parameters(**{key if key in shared else f"slurm_{key}": params[key] for key in params})
        return executor.map_array(launcher, *zip(*jobs, strict=True))
    except (RuntimeError, OSError, submitit.core.utils.FailedJobError) as error:
        # Hydra would show a traceback of its own for anything but this.
        print(redacted(f"error: Slurm took no job: {error}"), file=sys.stderr)
        sys.exit(1)


def _say(text: str) -> None:
    print(text, flush=True)


def wait(jobs: Sequence[Job], tell: Callable[[str], None] = _say) -> dict[int, str]:
    """Until each job has left its result or is gone: how those ended that left none, by number."""
    started = asked = time.monotonic()
    left = {job.id: job for job in jobs}
    gone: dict[str, float] = {}  # since when Slurm has them as ended
    returned: dict[str, int] = {}
    ends: dict[int, str] = {}
    while True:
        for job in [job for job in left.values() if _there(job.result)]:
            del left[job.id]
            tell(f"job {job.number} ended, {len(jobs) - len(left)} of {len(jobs)}")
        if not left:
            return ends
        now = time.monotonic()
        if now - asked < min(SLOWEST, 2 + (now - started) / 20):
            time.sleep(1.0)
            continue
        asked, current = now, states(list(left))
        if current is None:  # the controller is busy or away; the jobs are not
            continue
        for job in list(left.values()):
            state = current.get(job.id, "unknown to Slurm")
            if job.id in current and not state.startswith(ENDED):
                gone.pop(job.id, None)
            elif now - gone.setdefault(job.id, now) > PATIENCE and not _there(job.result):
                if state.startswith(TAKEN_AWAY) and returned.get(job.id, 0) < RETURNS and _requeue(job.id):
                    returned[job.id] = returned.get(job.id, 0) + 1
                    del gone[job.id]
                    continue
                ends[job.number] = state
                del left[job.id]
                tell(f"job {job.number} is lost ({state}), {len(jobs) - len(left)} of {len(jobs)}")


def _there(path: Path) -> bool:
    """Whether a file is there; the folder is read, because NFS may remember for a minute that it is not."""
    with contextlib.suppress(FileNotFoundError):
        return path.name in os.listdir(path.parent)
    return False


def _write_down(job: Job, state: str | None) -> None:
    """The record of a job that could not leave one."""
    said = job.log.read_text(errors="replace").strip().splitlines() if job.log.exists() else []
    how = f"Slurm job {job.id} ended without a result: {state}" if state else f"Slurm job {job.id} left no record"
    last = f"; it last said: {said[-1].strip()[:300]}" if said else ""
    error = redacted(f"{how}{last} (all of it: {job.log})")
    write_record(job.folder, JobRecord(job.number, job.overrides, "failed", error))


def _returned() -> JobReturn:
    """What Hydra is told of a job: that it ended. How is in its record, as with the other launchers."""
    return JobReturn(status=JobStatus.COMPLETED)
