"""Training on several devices: one process per device, started here, or by torchrun or srun.

Lightning's own launchers do not fit: `ddp` starts the command line again in every process (a whole sweep, under -m),
`ddp_spawn` brings back weights but no scores. Here the process that holds the run's lock starts one worker per device,
hands each the run, and only watches: it passes on what the first worker logs, and ends all when one of them dies.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from spikelm.catalog.quantities import gigabytes
from spikelm.config import trust
from spikelm.config.devices import device_count, device_memory, uses_gpu
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError, SpikeLMError, TrainingError
from spikelm.machine.children import end_with_parent
from spikelm.machine.signals import Stopped, asked, deferring, listening, passing_on, stop_if_asked
from spikelm.measure.fitting import smaller_settings
from spikelm.measure.workload import device_share
from spikelm.store.store import Run
from spikelm.training.callbacks import Log
from spikelm.training.decoders import refuse_choosing_by_test
from spikelm.training.devices.ranks import Ranks, join, launched_ranks, leave, tell
from spikelm.training.run_stage import Trained, train_and_measure

GRACE = 3.0  # seconds: when one rank fails the others do too, and the first cause may be reported last
SAVING = 60.0  # seconds: ranks that are asked to stop end one by one, and the first may be writing a checkpoint


def _silent(step: int, values: dict[str, float]) -> None:
    """What ranks above 0 do with metrics."""


def train(config: Config, run: Run, needed: Mapping[str, Path], log: Log, console: Console) -> Trained:
    """Train and measure on as many devices as the config asks for; `log` hears of every metric as it is made."""
    ranks, devices = launched_ranks(), device_count(config)
    if config.trainer.strategy == "fsdp" and (max(ranks.world, devices) == 1 or config.trainer.compile == "model"):
        raise ConfigError(
            "trainer.strategy=fsdp shares a model out over several devices, and is not for trainer.compile=model",
            "trainer.devices=N trainer.compile=neurons",
        )
    if ranks.world > 1:
        tell((config, run, needed))
        return _first(train_and_measure(config, run, needed, log, console, ranks))
    if devices == 1:
        try:
            return _first(train_and_measure(config, run, needed, log, console))
        finally:
            _give_back_memory()
    if config.trainer.accelerator != "cpu" and 0 < (gpus := torch.cuda.device_count()) < devices:
        raise ConfigError(f"trainer.devices={devices}, but there are {gpus} GPUs", f"trainer.devices={gpus}")
    return _first(_spawn(config, run, needed, log, console))


def _give_back_memory() -> None:
    """The next run of a sweep may need all of the GPU, also in processes of its own."""
    if torch.cuda.is_available():
        gc.collect()  # trainer and module hold each other
        torch.cuda.empty_cache()


def refuse_what_cannot_train(config: Config) -> None:
    """Say so before anything is read, fetched or trained."""
    refuse_without_gpu(config, torch.accelerator.is_available())
    if uses_gpu(config) and not torch.cuda.is_available():
        raise ConfigError(
            f"the driver knows GPUs, but torch {torch.__version__} cannot use them",
            "make clean setup TORCH_INDEX=... (docs/internals/speed.md), or trainer.accelerator=cpu",
        )
    refuse_too_large(config)
    refuse_choosing_by_test(config)


def refuse_without_gpu(config: Config, accelerator: bool) -> None:
    """A GPU that was asked for, or a scale at which a CPU would train for years, unless it is asked for by name."""
    if config.trainer.accelerator in ("gpu", "cuda") and not accelerator:
        raise ConfigError(
            f"trainer.accelerator={config.trainer.accelerator}, but torch sees no GPU here",
            "spikelm-doctor says what is missing; trainer.accelerator=cpu trains on the CPU",
        )
    if config.scale == "paper" and config.trainer.accelerator != "cpu" and not accelerator:
        raise ConfigError(
            "scale=paper is made for GPUs, and torch sees none here",
            "spikelm-doctor --scale paper says what is missing; trainer.accelerator=cpu trains on the CPU all the same",
        )


def refuse_too_large(config: Config) -> None:
    """Before anything is trained: a model of which not even the asked rows fit the device would fail after minutes."""
    share = device_share(config)
    if share.fits is not False:
        return
    needed, there = gigabytes(share.memory_gb or 0), gigabytes(device_memory(config) or 0)
    raise ConfigError(
        f"training {config.task.name} with {share.micro_batch} rows at a time needs about {needed} "
        f"of a device that has {there}",
        f"{' or '.join(smaller_settings(config)) or 'a smaller backbone'}; "
        "trainer.device_memory=GB says that the device has more",
    )


def _first(trained: Trained | None) -> Trained:
    """What the first rank has; only its process comes here."""
    if trained is None:
        raise TrainingError(
            "the first rank ended without a result", "the same command goes on from the last checkpoint"
        )
    return trained


def serve(ranks: Ranks) -> None:
    """A rank above 0 that was launched from outside: train along with the first one until it is done."""
    while (job := tell()) is not None:
        config, run, needed = job
        train_and_measure(config, run, needed, _silent, Console(quiet=True), ranks)


@dataclass(frozen=True)
class _Job:
    """What every worker is handed."""

    config: Config
    run: Run
    needed: Mapping[str, Path]
    meeting: str  # the URL where the ranks find each other
    quiet: bool
    packages: tuple[str, ...]  # plugins that are trusted


class _Worker:
    """One rank: its process and our end of its pipe."""

    def __init__(self, ranks: Ranks, job: _Job) -> None:
        context = multiprocessing.get_context("spawn")  # a fork has neither CUDA nor OpenMP
        self.ranks = ranks
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(ranks, theirs, job))
        self.process.start()
        theirs.close()  # so that its end is seen here

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(GRACE)
        if self.process.is_alive():  # inside a collective, where no signal handler runs
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _spawn(config: Config, run: Run, needed: Mapping[str, Path], log: Log, console: Console) -> Trained | None:
    world = device_count(config)
    workers: list[_Worker] = []
    with tempfile.TemporaryDirectory(prefix="spikelm-") as folder:
        job = _Job(config, run, needed, f"file://{folder}/meeting", console.quiet, tuple(sorted(trust.trusted())))
        try:
            for rank in range(world):
                workers.append(_Worker(Ranks(rank, world, rank, world), job))
            with deferring(), passing_on(lambda number: _signal(workers, number)):
                trained = _follow(workers, log)
            stop_if_asked()
            return trained
        finally:
            for worker in workers:
                worker.stop()


def _signal(workers: Sequence[_Worker], number: int) -> None:
    """Ask the ranks to stop: they do so after the same step, with a checkpoint, and we hear of it."""
    for worker in workers:
        if worker.process.is_alive() and worker.process.pid is not None:
            os.kill(worker.process.pid, signal.SIGTERM if number == signal.SIGINT else number)


def _follow(workers: Sequence[_Worker], log: Log) -> Trained | None:
    """Pass on what the first worker logs until all are done; the first cause of a failure is raised here."""
    trained: Trained | None = None
    failures: list[BaseException] = []
    open_pipes: dict[Any, _Worker] = {worker.pipe: worker for worker in workers}
    deadline = float("inf")
    while open_pipes and time.monotonic() < deadline:
        ready: list[Any] = wait(list(open_pipes), timeout=GRACE)
        for pipe in ready:
            try:
                kind, value = pipe.recv()
            except EOFError:  # the process ended
                worker = open_pipes.pop(pipe)
                worker.process.join()
                if code := worker.process.exitcode:
                    failures.append(_death(worker.ranks, code))
                    deadline = min(deadline, time.monotonic() + (SAVING if asked() else GRACE))
                continue
            if kind == "log":
                log(*value)
            elif kind == "trained":
                trained = value
            else:
                failures.append(value)
    if failures:
        stop_if_asked()  # then they ended because they were asked to
        raise min(failures, key=_weight)
    return trained


def _death(ranks: Ranks, code: int) -> SpikeLMError:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    fix = "the same command goes on from the last checkpoint; signal 9 is most often a lack of memory"
    return _Death(f"rank {ranks.rank} of {ranks.world} {how}", fix)


class _Death(TrainingError):
    """A worker that ended without saying why."""


def _weight(error: BaseException) -> int:
    """A clear error before a death by a signal, then any other exception, then a mere exit code."""
    if isinstance(error, _Death):
        return 1 if "signal" in error.what else 3
    return 0 if isinstance(error, SpikeLMError) else 2


def _work(ranks: Ranks, pipe: Connection, job: _Job) -> None:
    """One rank's process, from its start to its end."""

    def log(step: int, values: dict[str, float]) -> None:
        pipe.send(("log", (step, dict(values))))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the one that watches, who tells us
    end_with_parent()  # nobody holds the run's lock once it is gone: training on would be a second run
    try:
        for package in job.packages:
            trust.trust(package)
        join(ranks, job.meeting)
        console = Console(quiet=job.quiet or not ranks.first)
        with listening(interrupts=False):  # to what the one that watches passes on
            trained = train_and_measure(
                job.config, job.run, job.needed, log if ranks.first else _silent, console, ranks
            )
        if ranks.first:
            pipe.send(("trained", trained))
        leave()
    except Stopped as stopped:
        pipe.send(("failed", RuntimeError(str(stopped))))
        os._exit(stopped.exit_code)
    except SpikeLMError as error:
        pipe.send(("failed", error))
        os._exit(1)  # the other ranks may never answer again: no clean-up that waits for them
    except BaseException as error:
        failure = RuntimeError(f"{type(error).__name__}: {error} (rank {ranks.rank} of {ranks.world})")
        failure.add_note(traceback.format_exc())  # for traceback.txt
        pipe.send(("failed", failure))
        os._exit(1)
