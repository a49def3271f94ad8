"""W&B tracking: real offline runs, and a W&B that raises, hangs or is missing while training goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spikelm.runs.tracking import TrackedRun, Tracker, WandbTracker, effective_mode, make_tracker

KEY = "5ec2e7" * 6 + "5ec2"  # looks like an API key
ID = "00aa11bb22cc33dd"
Hook = Callable[..., None]
AT_ONCE = 0.5  # seconds; generous, for a busy machine


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_RUN_ID", "WANDB_ERROR_REPORTING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_API_KEY", KEY)


class FakeRun:
    """A W&B run that keeps what it is given."""

    def __init__(self, directory: str, log: Hook | None) -> None:
        self.dir = f"{directory}/wandb/run/files"
        self.summary: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.exit_code: int | None = None
        self._log = log

    def define_metric(self, name: str, step_metric: str) -> None:
        """Like wandb's."""

    def log(self, values: dict[str, Any]) -> None:
        if self._log is not None:
            self._log(values)
        self.rows.append(values)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


class FakeWandb(types.ModuleType):
    """Stands in for the module: `before(mode)` runs at init, `log` at each log."""

    def __init__(self, before: Hook | None = None, log: Hook | None = None) -> None:
        super().__init__("wandb")
        self.runs: list[FakeRun] = []
        self.inits: list[dict[str, Any]] = []
        self.threads: set[str] = set()
        self.torn_down = 0
        self.logged_in = True
        self.before = before
        self.log_hook = log

    def Settings(self, **settings: Any) -> dict[str, Any]:
        return settings

    def setup(self, settings: Any) -> None:
        """Like wandb's."""

    def Table(self, columns: list[str], data: list[list[Any]]) -> dict[str, Any]:
        return {"columns": columns, "data": data}

    def login(self, prompt: bool, verify: bool) -> bool:
        return self.logged_in

    def teardown(self) -> None:
        self.torn_down += 1

    def init(self, **arguments: Any) -> FakeRun:
        self.threads.add(threading.current_thread().name)
        self.inits.append(arguments)
        if self.before is not None:
            self.before(arguments["mode"])
        self.runs.append(FakeRun(arguments["dir"], self.log_hook))
        return self.runs[-1]


def use(monkeypatch: pytest.MonkeyPatch, fake: FakeWandb | None) -> None:
    monkeypatch.setitem(sys.modules, "wandb", fake)  # None makes the import fail


def track(directory: Path, said: list[str], mode: Any = "online", id: str = ID) -> Tracker:
    run = TrackedRun("spikelm", None, id, "name", "group", ["tag"], {"k": 2}, directory)
    return make_tracker(run, mode, said.append)


def train(tracker: Tracker, steps: int = 5) -> float:
    """A training loop; returns the seconds it spent on the tracker."""
    start = time.perf_counter()
    for step in range(steps):
        tracker.log(step, {"loss": 1 / (step + 1)})
    tracker.summary({"accuracy": 0.5})
    return time.perf_counter() - start


def holds(path: Path, text: bytes, times: int) -> bool:
    """Whether the file has the text; wandb's service process may write a moment after `finish` returns."""
    for _ in range(100):
        if path.read_bytes().count(text) >= times:
            return True
        time.sleep(0.05)
    return False


# The real thing, offline


def test_two_jobs_of_a_process_are_two_offline_runs_without_secrets(tmp_path: Path) -> None:
    said: list[str] = []
    for id in (ID, "ff00ee11dd22cc33"):
        tracker = track(tmp_path / id, said, "offline", id)
        assert train(tracker) < AT_ONCE
        tracker.log(1, {"loss": 7.0})  # a resumed run goes back in steps
        tracker.finish(ok=True)
        records = list((tmp_path / id / "wandb").glob(f"offline-run-*-{id}/run-{id}.wandb"))
        assert len(records) == 1
        assert holds(records[0], b"loss", 6)
        assert holds(records[0], b"accuracy", 1)
    assert len(list(tmp_path.glob("*/wandb/offline-run-*"))) == 2
    assert said == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


SAMPLES = [
    {"source": "The cat sleeps.", "reference": "Pisica doarme.", "generated": "Câinele doarme."},
    {"source": "She says no.", "reference": "Ea spune nu.", "generated": ""},
]


def test_a_table_is_in_the_offline_run(tmp_path: Path) -> None:
    said: list[str] = []
    tracker = track(tmp_path, said, "offline")
    tracker.table(7, "samples", SAMPLES)
    tracker.table(7, "nothing", [])
    tracker.finish(ok=True)
    (path,) = tmp_path.glob(f"wandb/offline-run-*-{ID}/files/media/table/samples_*.table.json")
    assert json.loads(path.read_text()) | {"ncols": 3, "nrows": 2} == {
        "columns": ["source", "reference", "generated"],
        "data": [list(row.values()) for row in SAMPLES],
        "ncols": 3,
        "nrows": 2,
    }
    (record,) = tmp_path.glob(f"wandb/offline-run-*-{ID}/run-{ID}.wandb")
    assert holds(record, b"table-file", 1)
    assert said == []


def test_resuming_offline_keeps_the_id(tmp_path: Path) -> None:
    for pause in (0.0, 1.1):  # wandb names folders by the second
        time.sleep(pause)
        tracker = track(tmp_path, [], "offline")
        train(tracker)
        tracker.finish(ok=False)
    assert len(list(tmp_path.glob(f"wandb/offline-run-*-{ID}"))) == 2


# A W&B that works, seen from inside


def test_what_wandb_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    use(monkeypatch, fake)
    said: list[str] = []
    tracker = track(tmp_path, said)
    tracker.table(3, "samples", SAMPLES)
    train(tracker)
    tracker.finish(ok=False)
    tracker.finish(ok=True)
    tracker.log(9, {"late": 1.0})
    (told,) = fake.inits
    expected = {"id": ID, "resume": "allow", "mode": "online", "dir": str(tmp_path), "reinit": "create_new"}
    assert {key: told[key] for key in expected} == expected
    assert told["settings"]["console"] == "off"
    table = {"columns": ["source", "reference", "generated"], "data": [list(row.values()) for row in SAMPLES]}
    assert fake.runs[0].rows[0] == {"step": 3, "samples": table}
    assert fake.runs[0].rows[-1] == {"step": 4, "loss": 0.2}
    assert fake.runs[0].summary == {"accuracy": 0.5}
    assert fake.runs[0].exit_code == 1
    assert fake.threads == {f"wandb-{ID}"}
    assert said == []


# A W&B that does not


def test_unreachable_wandb_becomes_offline_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(mode: str) -> None:
        if mode == "online":
            raise ConnectionError("no route to host")

    fake = FakeWandb(before=unreachable)
    use(monkeypatch, fake)
    said: list[str] = []
    tracker = track(tmp_path, said)
    train(tracker)
    tracker.finish(ok=True)
    assert [told["mode"] for told in fake.inits] == ["online", "offline"]
    assert len(fake.runs[0].rows) == 5
    assert fake.torn_down == 1
    (message,) = said
    assert "no route to host" in message
    assert f"wandb sync {tmp_path}/wandb/" in message


def test_no_login_becomes_offline_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    fake.logged_in = False
    use(monkeypatch, fake)
    said: list[str] = []
    tracker = track(tmp_path, said)
    tracker.finish(ok=True)
    assert [told["mode"] for told in fake.inits] == ["offline"]
    assert said[0].startswith("W&B has no key of yours; set it with: wandb login")


def test_a_malformed_key_is_called_malformed_and_not_told(tmp_path: Path) -> None:
    """The real library, in a process of its own: it keeps what it finds of keys."""
    code = f"""
from pathlib import Path
from spikelm.runs.tracking import TrackedRun, make_tracker
run = TrackedRun("spikelm", None, "1234abcd", "name", "group", [], {{}}, Path({str(tmp_path)!r}))
make_tracker(run, "online", print, finish_seconds=60).finish(ok=True)
"""
    env = {**os.environ, "WANDB_MODE": "online", "WANDB_API_KEY": "a-short-key", "HOME": str(tmp_path)}
    env["WANDB_BASE_URL"] = "http://127.0.0.1:9"  # nobody is asked
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    said = done.stdout.splitlines()[0]
    assert said.startswith("the key of W&B is malformed (WANDB_API_KEY invalid: API key must have 40+ characters")
    assert "set it with: wandb login, or WANDB_API_KEY=... in the environment; tracking offline" in said
    assert "cannot be reached" not in done.stdout
    assert "a-short-key" not in done.stdout + done.stderr


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(1)])
def test_broken_wandb_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*_: Any) -> None:
        raise error

    use(monkeypatch, FakeWandb(before=broken))
    said: list[str] = []
    tracker = track(tmp_path, said, "offline")
    assert train(tracker) < AT_ONCE
    tracker.finish(ok=True)
    assert len(said) == 1

    use(monkeypatch, FakeWandb(log=broken))
    said.clear()
    tracker = track(tmp_path, said)
    train(tracker)
    tracker.finish(ok=True)
    assert len(said) == 1
    assert "metrics.csv" in said[0]


def test_a_value_that_is_no_number_does_not_stop_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Vector:
        def item(self) -> float:
            raise ValueError("more than one element")

    fake = FakeWandb()
    use(monkeypatch, fake)
    said: list[str] = []
    tracker = track(tmp_path, said)
    tracker.log(0, {"bad": Vector()})
    tracker.log(1, {"good": 1.0})
    tracker.finish(ok=True)
    assert fake.runs[0].rows == [{"step": 1, "good": 1.0}]
    assert len(said) == 1


def test_missing_wandb_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    said: list[str] = []
    tracker = track(tmp_path, said)
    assert train(tracker) < AT_ONCE
    tracker.finish(ok=True)
    assert said == ["wandb is not installed, the run is not tracked; fix: pip install wandb"]


@pytest.mark.parametrize("where", ["init", "log"])
def test_hanging_wandb_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    release = threading.Event()

    def hang(*_: Any) -> None:
        release.wait(20)

    use(monkeypatch, FakeWandb(before=hang) if where == "init" else FakeWandb(log=hang))
    said: list[str] = []
    job = TrackedRun("spikelm", None, ID, "name", "group", [], {}, tmp_path)
    tracker = WandbTracker(job, True, said.append, queue_size=50, finish_seconds=0.3)
    try:
        assert train(tracker, steps=500) < AT_ONCE
        start = time.perf_counter()
        tracker.finish(ok=True)
        assert time.perf_counter() - start < 0.3 + AT_ONCE
        assert len(said) == 2  # dropped metrics once, not finished once
        assert "metrics.csv has them all" in said[0]
        assert ("wandb sync" in said[1]) == (where == "log")
    finally:
        release.set()


# The mode


@pytest.mark.parametrize(
    ("config", "variable", "expected"),
    [
        ("online", "", "online"),
        ("online", "offline", "offline"),
        ("online", "dryrun", "offline"),
        ("online", "disabled", "disabled"),
        ("offline", "disabled", "disabled"),
        ("offline", "online", "offline"),
        ("disabled", "online", "disabled"),
        ("offline", "nonsense", "offline"),
    ],
)
def test_environment_can_only_restrict(
    monkeypatch: pytest.MonkeyPatch, config: Any, variable: str, expected: str
) -> None:
    monkeypatch.setenv("WANDB_MODE", variable)
    said: list[str] = []
    assert effective_mode(config, said.append) == expected
    assert len(said) == (config != expected)


def test_disabled_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    said: list[str] = []
    tracker = track(tmp_path / "run", said, "disabled")
    train(tracker)
    tracker.finish(ok=True)
    assert said == []
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="tracker mode"):
        track(tmp_path, said, "sometimes")
