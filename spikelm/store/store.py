"""The runs on disk: one directory per run, found by its id, locked while it runs, finished by result.json."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import yaml

from spikelm.config.recorded import from_record, to_record
from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.machine.disk import disk_errors
from spikelm.machine.environment import Environment
from spikelm.store.atomic import plain, write_atomic, write_json
from spikelm.store.checksums import set_aside
from spikelm.store.metrics_csv import MetricsCsv

if TYPE_CHECKING:
    from spikelm.store.result import Result

OF_ANOTHER_VERSION = "is not a result of this version"
RESULT_ONLY = "result only"  # the state of a finished run without its files: neither weights nor curves
_log = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{16}")
#: as yaml.safe_load, in C where it was built
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DIRECTORY = re.compile(r".+-([0-9a-f]{8}|[0-9a-f]{16})")


def safe_name(name: str) -> str:
    """`name` as one visible path component: glue/mnli becomes glue-mnli, odd characters go."""
    cleaned = re.sub(r"[^A-Za-z0-9._=+-]+", "-", name)[:100].strip(".-")
    return cleaned or "unnamed"


def now() -> str:
    """The time in UTC, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_json(path: Path) -> dict[str, Any] | None:
    """The object in `path`, or None when it is absent or not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


@cache
def _warn(path: Path, problem: str) -> None:
    """Once, however often a command looks at the run."""
    _log.warning("%s %s; the run counts as not finished", path, problem)


@dataclass(frozen=True)
class Status:
    """status.json: how far a run has come."""

    run_id: str
    state: str = "new"  # new (nothing is written), running, failed or finished
    message: str = ""  # why it failed
    time: str = ""


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock of a run."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Run:
    """One run's directory. Nothing is created before `start`; hold `lock` while running."""

    def __init__(self, root: Path, directory: Path, id: str) -> None:
        self.root = root
        self.directory = directory
        self.id = id
        self.checkpoints = directory / "checkpoints"
        self.model = directory / "model"  # the final weights
        self._metrics = MetricsCsv(directory / "metrics.csv")

    @property
    def finished(self) -> bool:
        """Whether a valid result is there."""
        return self.result() is not None

    @property
    def status(self) -> Status:
        """status.json; the status of a new run where it is not there or not readable."""
        record = _read_json(self.directory / "status.json") or {}
        texts = {key: str(record.get(key) or "") for key in ("message", "time")}
        return Status(self.id, str(record.get("state", "new")), **texts)

    @property
    def state(self) -> str:
        """new, running, interrupted (running, but nobody holds the lock), failed, finished or result only."""
        if (result := self.result()) is not None:
            return RESULT_ONLY if self.has_only(result) else "finished"
        state = self.status.state
        if state in ("new", "failed"):
            return state
        return "running" if self._held() else "interrupted"

    def result(self) -> Result | None:
        """The finished result, or None; one that cannot be read does not count, which is said, and is not touched."""
        result, problem = self.examine()
        if problem is not None:
            _warn(self.directory / "result.json", problem)
        return result

    def has_only(self, result: Result) -> bool:
        """Whether none of the files that a run's result lists is there: the result alone was copied."""
        return bool(result.files) and not any((self.directory / name).exists() for name in result.files)

    def put_aside_result(self, why: str) -> Path | None:
        """Move result.json, where there is one, out of the way of the next one, which is about to be made."""
        path = self.directory / "result.json"
        return set_aside(path, why) if path.exists() else None

    def examine(self) -> tuple[Result | None, str | None]:
        """The finished result, and what is wrong with result.json if something is; nothing is moved or written."""
        if not (path := self.directory / "result.json").is_file():
            return None, None
        from spikelm.store.result import read_result

        if (record := _read_json(path)) is None:
            return None, "is not readable JSON"
        try:
            result = read_result(record)
        except ValueError as error:
            return None, str(error)
        return (result, None) if result.run_id == self.id else (None, f"is of another run ({result.run_id})")

    @contextlib.contextmanager
    def lock(self, wait: bool = True, message: Callable[[str], None] | None = None) -> Iterator[Run]:
        """Hold this run against every other process; look at `finished` again inside."""
        with disk_errors(self._lock_path.parent):
            self._lock_path.parent.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self._lock_path)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                said = f"run {self.id} is being run by {self._holder()}"
                if not wait:
                    raise SpikeLMError(said, f"wait for it; it writes to {self.directory}") from None
                if message is not None:
                    message(f"{said}; waiting for it")
                lock.acquire(poll_interval=0.2)
        try:
            holder = Holder(os.getpid(), socket.gethostname(), now())
            write_json(self._lock_path.with_suffix(".json"), asdict(holder))
            yield self
        finally:
            self._metrics.close()
            lock.release()

    @property
    def _lock_path(self) -> Path:
        return self.root / ".locks" / f"{self.id}.lock"

    def _holder(self) -> str:
        try:
            return str(Holder(**(_read_json(self._lock_path.with_suffix(".json")) or {})))
        except TypeError:  # it has not said who it is yet
            return "another process"

    def _held(self) -> bool:
        """Whether a process holds the lock. It is only looked at: neither the file nor its times change."""
        try:
            file = os.open(self._lock_path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # of another user, who does not let us look
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError:
            return True
        finally:
            os.close(file)

    def start(self, config: Config, environment: Environment) -> None:
        """Make the directory and write what is about to run."""
        with disk_errors(self.directory):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        self._write_status("running")
        self.write_config(config)
        write_json(self.directory / "environment.json", asdict(environment))

    def write_config(self, config: Config) -> None:
        """config.yaml, for people; the result has the config as well."""
        text = yaml.safe_dump(plain(to_record(config)), sort_keys=False)
        write_atomic(self.directory / "config.yaml", text)

    def saved_config(self) -> Config | None:
        """The config in config.yaml; None where it cannot be read, or is not of this version."""
        try:
            text = (self.directory / "config.yaml").read_text(encoding="utf-8", errors="replace")
            return from_record(yaml.load(text, LOADER))
        except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError):
            return None

    def finish(self, result: Result) -> Result:
        """Write the result with its checksum; returns what was written."""
        if result.run_id != self.id:
            raise ValueError(f"result is of run {result.run_id}, not {self.id}")
        record = result.to_record()
        self._metrics.close()
        write_json(self.directory / "result.json", record)
        self._write_status("finished")
        return result.model_copy(update={"checksum": record["checksum"]})

    def forget_checkpoints(self) -> None:
        """Free what only an interrupted training needs; a folder that is a link to another disk stays."""
        with contextlib.suppress(OSError):
            for path in self.checkpoints.glob("*step-*.ckpt*"):
                path.unlink(missing_ok=True)
            self.checkpoints.rmdir()

    def fail(self, error: BaseException | str) -> None:
        """Record why the run stopped; its checkpoints stay."""
        self._write_status("failed", error if isinstance(error, str) else f"{type(error).__name__}: {error}")

    def append_metrics(self, step: int, values: Mapping[str, Any]) -> None:
        """Add rows to metrics.csv."""
        self._metrics.append(step, values)

    def metrics_text(self) -> str:
        """metrics.csv as it is now, for a checkpoint to keep."""
        return self._metrics.text()

    def restore_metrics(self, text: str) -> None:
        """Make metrics.csv what it was when a checkpoint was taken, before the run goes on from there."""
        self._metrics.restore(text)

    def metrics(self) -> list[tuple[int, str, float]]:
        """The rows of metrics.csv: step, name, value."""
        return self._metrics.rows()

    def reset(self) -> None:
        """Forget what this run made (result, metrics, checkpoints, weights), for force=true."""
        self._metrics.close()
        with disk_errors(self.directory):
            for path in (self.checkpoints, self.model):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:  # a link to another disk: the link is ours, what it points to is not
                    path.unlink(missing_ok=True)
            for path in [*self.directory.glob("result.json*"), self.directory / "metrics.csv"]:
                path.unlink(missing_ok=True)

    def _write_status(self, state: str, message: str = "") -> None:
        write_json(self.directory / "status.json", asdict(Status(self.id, state, message, now())))


class Store:
    """All runs under one root: `<root>/<task>/<label>-<first 8 digits of the id>/`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()

    def open(self, run_id: str, label: str, task: str) -> Run:
        """The run with this id, whatever its label, or a new one that is not yet on disk."""
        if (run := self.find(run_id)) is not None:
            return run
        name = safe_name(label)
        directory = self.root / safe_name(task) / f"{name}-{run_id[:8]}"
        if directory.exists():  # another run shares the 8 digits
            directory = directory.with_name(f"{name}-{run_id}")
        return Run(self.root, directory, run_id)

    def find(self, run_id: str) -> Run | None:
        """The run on disk with this id."""
        if not _ID.fullmatch(run_id):
            raise ValueError(f"not a run id (16 hex digits): {run_id!r}")
        for suffix in (run_id[:8], run_id):
            for directory in sorted(self.root.glob(f"*/*-{suffix}")):
                if self._id(directory) in (run_id, None):
                    return Run(self.root, directory, run_id)
        return None

    def runs(self) -> Iterator[Run]:
        """Every run on disk, finished or not."""
        for directory, id in self.directories():
            if id is not None:
                yield Run(self.root, directory, id)

    def directories(self) -> Iterator[tuple[Path, str | None]]:
        """Every directory that is named like a run's, and the full id that its records give, if they do."""
        for directory in sorted(self.root.glob("*/*")):
            if _DIRECTORY.fullmatch(directory.name) and directory.is_dir():
                yield directory, self._id(directory)

    def results(self) -> list[Result]:
        """Every valid finished result."""
        return [result for run in self.runs() if (result := run.result()) is not None]

    @staticmethod
    def _id(directory: Path) -> str | None:
        """The full id a directory's own records give, None when they do not say."""
        for name in ("status.json", "result.json"):
            id = (_read_json(directory / name) or {}).get("run_id")
            if isinstance(id, str) and _ID.fullmatch(id) and directory.name.endswith((id[:8], id)):
                return id
        return None
