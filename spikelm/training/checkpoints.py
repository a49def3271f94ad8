"""Checkpoints that survive what may happen to them: whole or not there, checksummed, the one before kept.

A checkpoint of step N is taken after the step and before the evaluation that may be due then, so a run that goes on
from it evaluates first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO
from rich.console import Console

from spikelm.errors import CheckpointError
from spikelm.machine import signals
from spikelm.machine.disk import disk_errors
from spikelm.store.checksums import broken_seal, file_hash, seal, seal_path, set_aside
from spikelm.training.devices.ranks import largest
from spikelm.training.devices.sharding import Sharded

HISTORY = "metrics"  # the key of a checkpoint under which it keeps metrics.csv up to its step
KEPT = 2  # the newest, and the one before it: should the newest be damaged later, little is lost
SPARED = 60.0  # seconds of training that an evaluation may put at risk
_PATTERN = "step-*.ckpt"


class SafeCheckpointIO(TorchCheckpointIO):
    """Writes beside the place, reads back what is there, then renames: a name means a whole file."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with disk_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            for left in path.parent.glob(".*.tmp"):  # of a process that was killed: we hold the run's lock
                left.unlink(missing_ok=True)
            try:
                written = _write(checkpoint, temporary)
                if file_hash(temporary) != written:
                    raise CheckpointError(f"{path}: what was read back is not what was written", "look at the disk")
                seal(path, written)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise


class _Hashing:
    """A file that torch writes to, hashing what goes by; the first error of the disk is kept, torch hides it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.digest.update(data)
        try:
            return int(self.file.write(data))
        except OSError as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        self.file.flush()


def _write(checkpoint: dict[str, Any], path: Path) -> str:
    """Write and fsync; returns the sha256 of what was meant to be written."""
    with open(path, "wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(checkpoint, hashing)  # type: ignore[arg-type]
        except Exception:
            if hashing.error is not None:
                raise hashing.error from None
            raise
        file.flush()
        os.fsync(file.fileno())
    return hashing.digest.hexdigest()


def step_of(path: Path) -> int:
    """The step a checkpoint was taken after."""
    return int(path.stem.removeprefix("step-"))


def checkpoints(folder: Path) -> list[Path]:
    """Those of a run, the newest first."""
    return sorted(folder.glob(_PATTERN), key=step_of, reverse=True)


def last_checkpoint(folder: Path, console: Console) -> tuple[Path, int] | None:
    """The newest whole checkpoint and its step; damaged ones are named and put aside."""
    for path in checkpoints(folder):
        problem = _problem(path)
        if problem is None:
            return path, step_of(path)
        with disk_errors(folder):
            aside = set_aside(path)
            seal_path(path).unlink(missing_ok=True)
        console.print(f"warning: {path} {problem}; moved to {aside.name}", style="yellow", soft_wrap=True)
    return None


def _problem(path: Path) -> str | None:
    """What is wrong with a checkpoint, if anything; one that would run code is no accident and is refused."""
    try:
        if broken_seal(path):
            return "does not match its checksum"
        good = seal_path(path).exists() and zipfile.is_zipfile(path)  # its tensors need not be read
        torch.load(path, map_location="cpu", weights_only=True, mmap=good)
    except pickle.UnpicklingError as error:
        first = next((line for line in str(error).splitlines() if "GLOBAL" in line or "global" in line), "")
        if "nsupported" not in str(error):
            return f"is damaged ({str(error).splitlines()[0][:100]})"
        raise CheckpointError(
            f"{path} is refused: it holds more than tensors and plain values, and loading it could run code. {first}",
            f"find out who put it there; without it (rm {path}) the run goes on from an earlier state",
        ) from error
    except (EOFError, OSError, RuntimeError, ValueError, KeyError) as error:
        return f"is damaged ({(str(error).splitlines() or [type(error).__name__])[0][:100]})"
    return None


def history_in(path: Path) -> str:
    """What was logged before a checkpoint, as the checkpoint keeps it: a run that goes on has all of its metrics."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    if HISTORY not in checkpoint:
        raise CheckpointError(
            f"{path} does not hold the metrics of the steps before it, so metrics.csv would begin in the middle",
            f"without it (rm {path}) the run goes on from an earlier state, or starts again",
        )
    return str(checkpoint[HISTORY])


class Checkpoints(L.Callback):
    """Saves every `every` steps, at the end, when the process is asked to stop, and around an evaluation.

    A checkpoint of a BERT takes seconds, and so does an epoch of a small task on a GPU. So the state before an
    evaluation is written at once only where a kill would lose SPARED seconds of training; otherwise it is written
    when the evaluation ends by an error or a signal.
    """

    def __init__(
        self, folder: Path, every: int, evaluate_every: int, total: int, start: int, history: Callable[[], str]
    ) -> None:
        self.folder = folder
        self.history = history
        self.every = every
        self.evaluate_every = evaluate_every
        self.total = total
        self.start = start
        self._deferring = contextlib.ExitStack()
        self._last = time.monotonic()  # when the state was kept
        self._unsaved: dict[str, Any] | None = None  # the state before the evaluation that runs now

    def due(self, step: int) -> bool:
        """Whether the state after a step is kept, as far as the step's number tells."""
        return step % self.every == 0 or step == self.total

    def may_be_kept(self, step: int) -> bool:
        """Whether the state after a step is kept now, or later when the evaluation behind it fails."""
        return self.due(step) or step % self.evaluate_every == 0

    def _due_before_evaluation(self, trainer: L.Trainer) -> bool:
        """Whether an evaluation comes next, and the training since the last checkpoint is too long to be lost.

        A model in shards is put together by all ranks, who cannot do so any more when one of them fails.
        """
        in_shards = isinstance(trainer.strategy, Sharded)
        return trainer.global_step % self.evaluate_every == 0 and (in_shards or time.monotonic() - self._last >= SPARED)

    def on_save_checkpoint(self, trainer: L.Trainer, module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[HISTORY] = self.history()

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        signals.install()  # Lightning has taken SIGTERM by now, and would stop without a checkpoint
        if 0 < self.start < self.total and self.start % self.evaluate_every == 0:
            _evaluate(trainer)
        self._defer()

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        number, wanted = largest(signals.asked(), int(self._due_before_evaluation(trainer)))
        if number or wanted or self.due(step):
            trainer.save_checkpoint(self.folder / f"step-{step}.ckpt")
            self._last = time.monotonic()
            if trainer.is_global_zero:
                self._forget_older()
        elif step % self.evaluate_every == 0 and trainer.is_global_zero:
            self._unsaved = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        if number:
            raise signals.Stopped(number)

    def on_validation_start(self, trainer: L.Trainer, module: Any) -> None:
        signals.install()  # also in an evaluation that follows a fit, before which Lightning takes SIGTERM again
        self._deferring.close()  # all before it is kept, or will be: a signal may end it
        signals.stop_if_asked()

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        self._unsaved = None
        if trainer.state.fn == "fit":
            self._defer()

    def on_train_end(self, trainer: L.Trainer, module: Any) -> None:
        self._deferring.close()

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        self._deferring.close()
        if self._unsaved is not None:
            # The first error is the one to be told of, and a second signal must not cut the file.
            with signals.deferring(), contextlib.suppress(Exception):
                trainer.strategy.save_checkpoint(self._unsaved, self.folder / f"step-{trainer.global_step}.ckpt")
            self._unsaved = None

    def _defer(self) -> None:
        self._deferring.close()
        self._deferring.enter_context(signals.deferring())

    def _forget_older(self) -> None:
        for path in checkpoints(self.folder)[KEPT:]:
            path.unlink(missing_ok=True)
            seal_path(path).unlink(missing_ok=True)


def _evaluate(trainer: L.Trainer) -> None:
    """The evaluation that was due at the step the run goes on from, as Lightning itself runs it between steps."""
    loop = trainer.fit_loop.epoch_loop.val_loop
    loop.restarting = False
    trainer.validating = True
    loop.run()
    trainer.training = True
