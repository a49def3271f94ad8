"""The run store: identity, records that survive crashes, locks between processes."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_result import ENVIRONMENT, made_up

from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.store import metrics_csv
from spikelm.store.checksums import file_sums
from spikelm.store.hashing import digest, run_id
from spikelm.store.result import Result
from spikelm.store.store import RESULT_ONLY, Run, Store, safe_name

IDENTITY = {"task": "glue/mnli", "k": 2, "T": 1, "lr": 1e-4, "tags": ["a", {"b": None}]}
SPAWN = multiprocessing.get_context("spawn")
FAST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store(tmp_path / "runs").open(run_id(IDENTITY), "bispike-T1-k2-s42-mini", "glue/mnli")


def start(run: Run) -> None:
    run.start(Config(k=2), ENVIRONMENT)


def finish(run: Run, **changes: Any) -> Result:
    return run.finish(made_up(**{"run_id": run.id, **changes}))


# Identity


NAMES = st.text() | st.sampled_from(["..", "../..", "/etc", "a/../../b", ".locks", "C:\\x", "a\0b"])


@FAST
@given(NAMES, NAMES)
def test_no_name_escapes_the_root(tmp_path: Path, label: str, task: str) -> None:
    root = tmp_path / "runs"
    directory = Store(root).open("0123456789abcdef", label, task).directory
    assert directory.parent.parent == root
    assert directory.resolve().is_relative_to(root.resolve())
    assert not any(part.startswith(".") for part in directory.relative_to(root).parts)
    assert len(directory.name) < 255


def test_path_of_a_run(run: Run) -> None:
    assert run.directory == run.root / "glue-mnli" / f"bispike-T1-k2-s42-mini-{run.id[:8]}"
    assert safe_name("glue/mnli") == "glue-mnli"
    assert not run.root.exists()  # opening creates nothing
    assert run.state == "new"


def test_run_is_found_whatever_its_label(run: Run) -> None:
    store = Store(run.root)
    assert store.find(run.id) is None
    start(run)
    assert store.open(run.id, "renamed", "other").directory == run.directory
    assert [r.id for r in store.runs()] == [run.id]
    assert store.results() == []


def test_ids_that_share_eight_digits_do_not_share_a_directory(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.open("0123456700000001", "a", "t")
    start(first)
    second = store.open("0123456700000002", "a", "t")
    start(second)
    assert first.directory != second.directory
    for one in (first, second):
        assert store.open(one.id, "b", "t").directory == one.directory
    assert {r.id for r in store.runs()} == {first.id, second.id}


@pytest.mark.parametrize("bad", ["", "*", "../../etc/passwd", "0123", "0123456789ABCDEF"])
def test_an_id_is_sixteen_hex_digits(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        Store(tmp_path).open(bad, "a", "t")


# A run's life


def test_life_of_a_run(run: Run) -> None:
    with run.lock():
        start(run)
        assert run.state == "running"
        assert not run.finished
    assert run.state == "interrupted"
    run.fail(RuntimeError("loss is not finite"))
    assert run.state == "failed"
    assert run.status.message == "RuntimeError: loss is not finite"
    written = finish(run, metrics={"accuracy": 0.5, "matthews": None})
    assert run.state == "finished"
    assert run.result() == written
    assert written.metrics == {"accuracy": 0.5, "matthews": None}
    assert Store(run.root).results() == [written]
    assert run.saved_config() == Config(k=2)
    assert not list(run.directory.glob(".*.tmp"))


def test_finish_looks_at_the_id(run: Run) -> None:
    start(run)
    with pytest.raises(ValueError, match="is of run"):
        finish(run, run_id="f" * 16)
    assert not run.finished


def test_reset_forgets_only_this_run(run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other-disk"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    other = Store(run.root).open("f" * 16, "other", "glue/mnli")
    for one in (run, other):
        start(one)
        one.append_metrics(0, {"loss": 1.0})
        finish(one)
    (run.checkpoints / "last.ckpt").touch()
    run.model.symlink_to(elsewhere)
    run.reset()
    assert not run.finished
    assert run.metrics() == []
    assert not run.checkpoints.exists()
    assert not run.model.is_symlink()
    assert (elsewhere / "kept").exists()
    assert other.finished
    assert other.metrics() == [(0, "loss", 1.0)]


def test_checkpoints_are_forgotten_also_where_their_folder_is_on_another_disk(run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other-disk"
    elsewhere.mkdir()
    start(run)
    run.checkpoints.rmdir()
    run.checkpoints.symlink_to(elsewhere)
    for name in ("step-3.ckpt", "step-3.ckpt.sha256", "step-2.ckpt.damaged-1", ".step-4.ckpt.7.tmp", "notes.txt"):
        (elsewhere / name).touch()
    run.forget_checkpoints()
    assert [path.name for path in elsewhere.iterdir()] == ["notes.txt"]
    assert run.checkpoints.is_symlink()


# Damage


def test_every_flipped_bit_is_noticed_or_harmless(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    start(run)
    written = finish(run)
    path = run.directory / "result.json"
    clean = path.read_bytes()
    noticed = 0
    for position in range(0, len(clean), 3):
        damaged = bytearray(clean)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        result = run.result()
        noticed += result is None
        assert result is None or result == written
    assert noticed > len(clean) / 6
    assert str(path) in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"checksum": NaN}', "\x00" * 40])
def test_a_corrupt_result_is_named_and_stays_until_the_run_is_made_again(
    run: Run, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    start(run)
    path = run.directory / "result.json"
    for n in (1, 2):
        path.write_text(text)
        assert not run.finished
        assert run.state == "interrupted"
        assert path.read_text() == text, "looking changes nothing"
        assert run.put_aside_result("corrupt") == path.with_name(f"result.json.corrupt-{n}")
        assert path.with_name(f"result.json.corrupt-{n}").read_text() == text
    assert caplog.text.count(str(path)) == 1, "said once, however often it is looked at"
    assert run.put_aside_result("corrupt") is None, "nothing is there any more"


def test_a_run_without_the_files_of_its_result_is_a_state_of_its_own(run: Run) -> None:
    start(run)
    run.append_metrics(1, {"train/loss": 1.0})
    result = finish(run, files=file_sums(run.directory, [run.directory / "config.yaml", run.directory / "metrics.csv"]))
    assert run.state == "finished"
    (run.directory / "config.yaml").unlink()
    assert run.state == "finished", "something of it is there, and what is missing is damage"
    (run.directory / "metrics.csv").unlink()
    assert run.state == RESULT_ONLY
    assert run.result() == result
    assert finish(run, files={}).files == {}
    assert run.state == "finished", "nothing tells that it ever had files"


def test_looking_whether_a_run_is_held_leaves_its_lock_alone(run: Run) -> None:
    with run.lock():
        start(run)
        assert run.state == "running"
    (lock,) = (run.root / ".locks").glob("*.lock")
    os.utime(lock, (1, 1))
    lock.chmod(0o444)
    assert run.state == "interrupted"
    assert lock.stat().st_mtime == 1


def test_a_truncated_or_foreign_result_does_not_count(run: Run) -> None:
    start(run)
    finish(run)
    path = run.directory / "result.json"
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert run.result() is None
    other = Store(run.root).open("f" * 16, "other", "t")
    start(other)
    (other.directory / "result.json").write_text(whole)
    assert other.result() is None


def test_a_failed_write_leaves_the_old_result(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    start(run)
    first = finish(run)

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(SpikeLMError):
            finish(run, seed=43)
    assert run.result() == first
    assert not list(run.directory.glob(".*.tmp"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_disk_is_explained(run: Run, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    start(run)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(metrics_csv.MetricsCsv, "_open", full)
    for action in (lambda: finish(run), lambda: run.append_metrics(0, {"loss": 1.0})):
        with pytest.raises(SpikeLMError) as caught:
            action()
        assert str(run.directory) in caught.value.what
        assert "runs_dir=" in caught.value.fix


def test_runs_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("not a directory")
    run = Store(tmp_path / "runs").open("0" * 16, "a", "t")
    with pytest.raises(SpikeLMError, match="runs"):
        start(run)
    with pytest.raises(SpikeLMError, match="runs"), run.lock():
        pytest.fail("nothing can be locked there")


# Metrics


def test_metrics_have_no_duplicates_after_a_resume(run: Run) -> None:
    start(run)
    for step in range(6):
        if step == 3:
            kept = run.metrics_text()
        run.append_metrics(step, {"loss": 1 / (step + 1), "odd, name": step})
    resumed = Store(run.root).open(run.id, "x", "y")
    resumed.restore_metrics(kept)
    for step in range(3, 8):
        resumed.append_metrics(step, {"loss": 1 / (step + 1), "odd, name": step})
    rows = resumed.metrics()
    assert len(rows) == len({row[:2] for row in rows}) == 16
    assert rows[0] == (0, "loss", 1.0)
    assert (run.directory / "metrics.csv").read_text().count("step,name,value") == 1


def test_metrics_are_on_disk_at_once_and_a_torn_row_is_dropped(run: Run) -> None:
    start(run)
    assert run.metrics_text() == ""
    run.restore_metrics("")  # nothing there yet
    run.append_metrics(0, {"loss": 0.1})
    path = run.directory / "metrics.csv"
    assert path.read_text() == "step,name,value\n0,loss,0.1\n"
    with path.open("a") as file:
        file.write("1,loss,0.12")
    later = Store(run.root).open(run.id, "x", "y")
    assert later.metrics() == [(0, "loss", 0.1)]
    later.append_metrics(1, {"loss": 0.125})
    assert later.metrics() == [(0, "loss", 0.1), (1, "loss", 0.125)]


# Locks


def hold(root: Path, id: str, held: Event, release: Event) -> None:
    """Another process: hold the lock until told."""
    with Store(root).open(id, "a", "t").lock():
        held.set()
        release.wait(20)


def count(root: Path, id: str) -> None:
    """Another process: a read-modify-write that loses counts unless the lock excludes."""
    run = Store(root).open(id, "a", "t")
    for _ in range(10):
        with run.lock():
            path = root / "count"
            value = int(path.read_text())
            time.sleep(0.001)
            path.write_text(str(value + 1))


def test_second_process_waits_and_is_told_who_holds(run: Run) -> None:
    held, release = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(run.root, run.id, held, release))
    process.start()
    try:
        assert held.wait(20)
        with pytest.raises(SpikeLMError, match=f"process {process.pid}"), run.lock(wait=False):
            pytest.fail("the lock is held")
        start(run)
        assert run.state == "running"
        said: list[str] = []

        def tell(message: str) -> None:
            said.append(message)
            release.set()

        with run.lock(message=tell):
            assert len(said) == 1
            assert f"process {process.pid} on " in said[0]
    finally:
        release.set()
        process.join(20)
    assert process.exitcode == 0


def test_a_killed_holder_frees_the_lock(run: Run) -> None:
    held, release = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(run.root, run.id, held, release))
    process.start()
    assert held.wait(20)
    assert process.pid is not None
    with pytest.raises(SpikeLMError, match=f"process {process.pid}"), run.lock(wait=False):
        pytest.fail("the lock is held")
    os.kill(process.pid, signal.SIGKILL)
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    with run.lock(wait=False) as held_here:
        assert held_here is run


def test_processes_exclude_each_other(run: Run) -> None:
    run.root.mkdir()
    (run.root / "count").write_text("0")
    processes = [SPAWN.Process(target=count, args=(run.root, run.id)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert (run.root / "count").read_text() == "20"


# Environment


def test_a_whole_result_of_another_version_stays_where_it_is(run: Run) -> None:
    record = {key: value for key, value in made_up(run_id=run.id).to_record().items() if key != "checksum"}
    record["schema"] = 1
    run.directory.mkdir(parents=True)
    path = run.directory / "result.json"
    path.write_text(json.dumps({**record, "checksum": digest(record)}))
    before = path.read_text()
    assert run.result() is None
    assert not run.finished
    assert [file.name for file in run.directory.iterdir()] == ["result.json"]
    assert path.read_text() == before
