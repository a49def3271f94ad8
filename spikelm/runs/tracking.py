"""Weights & Biases as a bystander: every call to it is made on a thread that training never waits for."""

from __future__ import annotations

import importlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from spikelm.config.redact import redacted
from spikelm.store.atomic import plain

Mode = Literal["online", "offline", "disabled"]
Notify = Callable[[str], None]

QUEUE_SIZE = 10_000
INIT_SECONDS = 15.0
FINISH_SECONDS = 30.0


class Tracker:
    """Tracks nothing; also the interface."""

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Record metrics at a step; returns at once."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Record final values; returns at once."""

    def table(self, step: int, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record rows with the same keys (texts, say) as a table; returns at once."""

    def finish(self, ok: bool) -> None:
        """Close the run, as succeeded or failed, within a bounded time."""


@dataclass(frozen=True)
class TrackedRun:
    """What W&B is told about one run."""

    project: str
    entity: str | None
    run_id: str
    name: str
    group: str
    tags: Sequence[str]
    config: Mapping[str, Any]
    directory: Path
    job_type: str | None = None


class WandbTracker(Tracker):
    """One W&B run, fed through a bounded queue by one daemon thread; metrics.csv stays the truth."""

    def __init__(
        self, job: TrackedRun, online: bool, notify: Notify, *, queue_size: int = QUEUE_SIZE,
        init_seconds: float = INIT_SECONDS, finish_seconds: float = FINISH_SECONDS,
    ) -> None:  # fmt: skip
        self._job = job
        self._online = online
        self._notify = notify
        self._init_seconds = init_seconds
        self._finish_seconds = finish_seconds
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(queue_size)
        self._said: set[str] = set()
        self._ok = True
        self._finished = False
        self._folder: Path | None = None  # of the W&B run, once there is one
        self._thread = threading.Thread(target=self._work, name=f"wandb-{job.run_id}", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Queue metrics; when W&B cannot keep up they are dropped."""
        self._put("log", {"step": step, **values})

    def summary(self, values: Mapping[str, Any]) -> None:
        """Queue final values."""
        self._put("summary", values)

    def table(self, step: int, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Queue a table."""
        if rows:
            cells = [list(row.values()) for row in rows]
            self._put("table", {"step": step, "name": name, "columns": list(rows[0]), "data": cells})

    def finish(self, ok: bool) -> None:
        """Send what is queued and close the run, in at most `finish_seconds`; a second call does nothing."""
        if self._finished:
            return
        self._finished = True
        self._ok = ok
        while True:
            try:
                self._queue.put_nowait(None)
                break
            except queue.Full:  # a stuck W&B must still be told to stop
                self._discard_one()
        self._thread.join(self._finish_seconds)
        if self._thread.is_alive():
            self._say("stuck", f"W&B did not finish within {self._finish_seconds:g} s; {self._later()}")

    def _put(self, kind: str, values: Mapping[str, Any]) -> None:
        if self._finished or not self._thread.is_alive():
            return
        try:
            self._queue.put_nowait((kind, plain(values)))
        except queue.Full:
            self._say("full", "W&B does not keep up, some metrics do not reach it; metrics.csv has them all")
        except Exception as error:  # a value that is no number
            self._say("value", f"W&B cannot be given these metrics ({_reason(error)})")

    def _discard_one(self) -> None:
        try:
            self._queue.get_nowait()
        except queue.Empty:
            return

    def _say(self, topic: str, message: str) -> None:
        """Tell the user once per topic, and nothing more of a W&B that was given up on."""
        if topic not in self._said and "stuck" not in self._said:
            self._said.add(topic)
            self._notify(message)

    def _later(self) -> str:
        sync = f"; upload later with: wandb sync {self._folder}" if self._folder else ""
        return f"metrics.csv is complete{sync}"

    # Below: the worker thread. wandb may raise anything, SystemExit included; none of it may reach training.

    def _work(self) -> None:
        # wandb's own error telemetry holds up the exit of the process when the network hangs.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            wandb = importlib.import_module("wandb")
        except ImportError:
            self._say("init", "wandb is not installed, the run is not tracked; fix: pip install wandb")
            return
        except (Exception, SystemExit) as error:
            self._say("init", f"wandb does not import ({_reason(error)}), the run is not tracked")
            return
        try:
            run = self._open(wandb)
            self._folder = Path(run.dir).parent
        except (Exception, SystemExit) as error:
            self._say("init", f"W&B did not start ({_reason(error)}), the run is not tracked")
            return
        while (item := self._queue.get()) is not None:
            self._send(wandb, run, *item)
        try:
            run.finish(exit_code=0 if self._ok else 1)
        except (Exception, SystemExit) as error:
            self._say("stuck", f"W&B did not finish ({_reason(error)}); {self._later()}")

    def _open(self, wandb: Any) -> Any:
        if self._online:
            try:
                return self._init(wandb, "online")
            except (Exception, SystemExit) as error:
                where = f"{self._job.directory}/wandb/offline-run-*-{self._job.run_id}"
                later = f"tracking offline, upload later with: wandb sync {where}"
                trouble = str(error) if isinstance(error, _NoKey) else f"W&B cannot be reached ({_reason(error)})"
                self._say("online", f"{trouble}; {later}")
                wandb.teardown()  # the failed attempt still holds the run id
        return self._init(wandb, "offline")

    def _init(self, wandb: Any, mode: str) -> Any:
        job = self._job
        job.directory.mkdir(parents=True, exist_ok=True)  # wandb would silently use a temporary one
        wandb.setup(settings=wandb.Settings(silent=True))
        if mode == "online":
            _log_in(wandb)
        settings = wandb.Settings(
            console="off",
            silent=True,
            init_timeout=self._init_seconds,
            finish_timeout=0.8 * self._finish_seconds,
            finish_timeout_raises=True,
            disable_code=True,
            disable_git=True,  # environment.json has the commit
            x_disable_machine_info=True,
            host="",  # host and user names are nobody's business
        )
        # create_new: jobs of one process (multirun) never share or disturb each other's run.
        run = wandb.init(
            mode=mode, project=job.project, entity=job.entity, id=job.run_id, resume="allow", name=job.name,
            group=job.group, job_type=job.job_type, tags=[tag[:64] for tag in job.tags], config=plain(job.config),
            dir=str(job.directory), reinit="create_new", settings=settings,
        )  # fmt: skip
        # Our step is an ordinary metric: W&B's own only grows, so a resumed run's steps would be ignored.
        run.define_metric("*", step_metric="step")
        return run

    def _send(self, wandb: Any, run: Any, kind: str, values: dict[str, Any]) -> None:
        try:
            if kind == "log":
                run.log(values)
            elif kind == "table":
                table = wandb.Table(columns=values["columns"], data=values["data"])
                run.log({"step": values["step"], values["name"]: table})
            else:
                run.summary.update(values)
        except (Exception, SystemExit) as error:
            self._say("send", f"W&B refused metrics ({_reason(error)}); metrics.csv has them all")


class _NoKey(Exception):
    """W&B has no key, or one that cannot be a key; nobody was asked over a network."""


def _log_in(wandb: Any) -> None:
    """Find the key; a missing one must not become a prompt that nobody sees."""
    set_it = "set it with: wandb login, or WANDB_API_KEY=... in the environment"
    try:
        found = wandb.login(prompt=False, verify=False)
    except Exception as error:
        if type(error).__name__ != "AuthenticationError":
            raise
        raise _NoKey(f"the key of W&B is malformed ({redacted(str(error)).rstrip('.')}); {set_it}") from error
    if not found:
        raise _NoKey(f"W&B has no key of yours; {set_it}")


def _reason(error: BaseException) -> str:
    first_line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line[:160]}" if first_line else type(error).__name__


def effective_mode(mode: Mode, notify: Notify) -> Mode:
    """The stricter of the config's mode and WANDB_MODE, so that the environment can always switch W&B off."""
    strictness: dict[str, int] = {"online": 0, "offline": 1, "dryrun": 1, "disabled": 2}
    if mode not in ("online", "offline", "disabled"):
        raise ValueError(f"tracker mode must be online, offline or disabled, not {mode!r}")
    asked = os.environ.get("WANDB_MODE", "").strip().lower()
    if strictness.get(asked, 0) <= strictness[mode]:
        return mode
    notify(f"WANDB_MODE={asked} in the environment wins over tracker mode {mode}")
    return "disabled" if asked == "disabled" else "offline"


def make_tracker(run: TrackedRun, mode: Mode, notify: Notify, finish_seconds: float = FINISH_SECONDS) -> Tracker:
    """A tracker of one run, to be finished by its job; `notify` may be called from another thread."""
    mode = effective_mode(mode, notify)
    if mode == "disabled":
        return Tracker()
    return WandbTracker(run, mode == "online", notify, finish_seconds=finish_seconds)
