"""A disk that is full or read-only (a small tmpfs): a message, nothing lost, and the run goes on when there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import SMALL, call
from test_kills import outcome

pytestmark = [pytest.mark.slow, pytest.mark.faults]
SIZE = 64 * 2**20


def mount(*args: str) -> bool:
    return subprocess.run(["mount", *args], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)):
        pytest.skip("no right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, leave: int) -> Path:
    """A file that leaves so many bytes."""
    filler = place / "filler"
    filler.write_bytes(b"")
    free = int(subprocess.run(["df", "-B1", "--output=avail", place], capture_output=True, text=True).stdout.split()[1])
    with filler.open("wb") as file:
        file.write(b"\0" * max(0, free - leave))
    return filler


def test_a_full_disk_stops_a_run_that_goes_on_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    args = (*SMALL, "task=glue/rte")
    code, said = call(tmp_path / "whole", *args, f"runs_dir={tmp_path / 'runs'}")
    assert code == 0, said
    runs = small_disk / "runs"
    code, said = call(tmp_path / "first", *SMALL, "task=pretrain", f"runs_dir={runs}")
    assert code == 0, said
    (kept,) = runs.glob("pretrain/*/result.json")
    before = kept.read_bytes()
    stopped = []
    for step, leave in enumerate((0, 10_000, 60_000, 300_000, 700_000, 1_500_000, 3_000_000)):
        filler = fill(small_disk, leave)
        code, said = call(tmp_path / f"full-{step}", *args, f"runs_dir={runs}")
        filler.unlink()
        assert kept.read_bytes() == before, "earlier results are intact"
        assert not list(runs.glob("glue-rte/*/result.json")) or code == 0, "no result is half written"
        if code == 0:
            break
        stopped.append(leave)
        assert code == 1
        assert "error: cannot write to" in said, said
        assert "runs_dir=OTHER" in said
        assert "Traceback" not in said, said
    assert len(stopped) >= 3
    code, said = call(tmp_path / "room", *args, f"runs_dir={runs}")
    assert code == 0, said
    for task in ("pretrain", "glue-rte"):
        assert outcome(runs, task) == outcome(tmp_path / "runs", task)
    print(f"stopped with {stopped} bytes left, went on with room")


def test_a_read_only_directory_is_named(small_disk: Path, tmp_path: Path) -> None:
    runs = small_disk / "runs"
    code, said = call(tmp_path / "first", *SMALL, "task=pretrain", f"runs_dir={runs}")
    assert code == 0, said
    (kept,) = runs.glob("pretrain/*/result.json")
    before = kept.read_bytes()
    assert mount("-o", "remount,ro", str(small_disk))
    for name in ("runs", "new"):
        code, said = call(tmp_path / f"ro-{name}", *SMALL, "task=glue/rte", f"runs_dir={small_disk / name}")
        assert code == 1, said
        assert "cannot write to" in said, said
        assert "Read-only" in said
        assert "Traceback" not in said
    code, said = call(tmp_path / "found", *SMALL, "task=pretrain", f"runs_dir={runs}")
    assert code == 0, f"what is finished can be read: {said}"
    assert mount("-o", "remount,rw", str(small_disk))
    code, said = call(tmp_path / "again", *SMALL, "task=glue/rte", f"runs_dir={runs}")
    assert code == 0, said
    assert kept.read_bytes() == before
