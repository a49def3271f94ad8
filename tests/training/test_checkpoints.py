"""Checkpoints: a fit cut anywhere ends like a whole one; damage is noticed, named and gone around; no code is run."""

from __future__ import annotations

import io
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from toy_training import STEPS, Outcome, places, train

from spikelm.errors import CheckpointError, SpikeLMError
from spikelm.machine import signals
from spikelm.store.checksums import seal_path
from spikelm.training import checkpoints
from spikelm.training.checkpoints import SafeCheckpointIO, last_checkpoint

NOWHERE = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return train(tmp_path_factory.mktemp("whole") / "run")


class Hit(BaseException):
    """Ends a training on the spot."""


class Once:
    """Does something the first time a moment comes."""

    def __init__(self, moment: tuple[str, int], act: Any) -> None:
        self.moment, self.act, self.steps = moment, act, []

    def __call__(self, place: str, step: int) -> None:
        if place == "train":
            self.steps.append(step)
        if (place, step) == self.moment and self.act is not None:
            act, self.act = self.act, None
            act()


def hit() -> None:
    raise Hit


def test_the_whole_run_is_worth_comparing(whole: Outcome) -> None:
    names = [row[1] for row in whole.rows]
    assert names.count("train/loss") == STEPS
    assert names.count("dev/score") == 3
    assert 0 < whole.best[1] < STEPS, "the best evaluation is not the last"


@pytest.mark.parametrize("moment", list(places()), ids=str)
def test_a_fit_cut_at_any_moment_ends_like_a_whole_one(moment: tuple[str, int], whole: Outcome, tmp_path: Path) -> None:
    at = Once(moment, hit)
    with pytest.raises(Hit):
        train(tmp_path, at)
    before = len(at.steps)
    assert train(tmp_path, at) == whole
    repeated = before + len(at.steps[before:]) - STEPS
    assert repeated <= 2 if moment[0] == "train" else repeated == 0, "no more than since the last checkpoint"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
@pytest.mark.parametrize("moment", [("train", 4), ("evaluate", 3)], ids=str)
def test_a_signal_keeps_the_step_at_hand(
    moment: tuple[str, int], number: signal.Signals, whole: Outcome, tmp_path: Path
) -> None:
    at = Once(moment, lambda: os.kill(os.getpid(), number))
    with pytest.raises(signals.Stopped) as caught, signals.listening():
        train(tmp_path, at, every=100)
    assert caught.value.exit_code == (130 if number == signal.SIGINT else 75)
    assert last_checkpoint(tmp_path / "checkpoints", NOWHERE)[1] == (5 if moment[0] == "train" else 3)
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler), "as before"
    assert train(tmp_path, at, every=100) == whole
    assert at.steps == list(range(STEPS)), "no step is done twice"


def test_an_earlier_handler_hears_of_a_signal_after_the_checkpoint(whole: Outcome, tmp_path: Path) -> None:
    heard: list[int] = []

    def requeue(number: int, frame: Any) -> None:  # like submitit's
        heard.append(last_checkpoint(tmp_path / "checkpoints", NOWHERE)[1])

    earlier = signal.signal(signal.SIGUSR2, requeue)
    try:
        with pytest.raises(signals.Stopped), signals.listening():
            train(tmp_path, Once(("train", 4), lambda: os.kill(os.getpid(), signal.SIGUSR2)), every=100)
    finally:
        signal.signal(signal.SIGUSR2, earlier)
    assert heard == [5]
    assert train(tmp_path) == whole


def cut(folder: Path) -> list[Path]:
    """A run that stopped in step 7, with checkpoints after steps 6 and 4."""
    with pytest.raises(Hit):
        train(folder, Once(("train", 7), hit))
    found = checkpoints.checkpoints(folder / "checkpoints")
    assert [path.name for path in found] == ["step-6.ckpt", "step-4.ckpt"]
    return found


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


DAMAGE = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "flipped": flip,
    "missing": lambda path: path.unlink(),
    "checksum flipped": lambda path: flip(seal_path(path)),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("number", [1, 2])
def test_damage_is_named_and_gone_around(damage: str, number: int, whole: Outcome, tmp_path: Path) -> None:
    found = cut(tmp_path)
    for path in found[:number]:
        DAMAGE[damage](path)
    outcome = train(tmp_path)
    assert outcome == whole
    if damage != "missing":
        assert all(str(path) in outcome.said for path in found[:number])
    assert ("going on from step 4" in outcome.said) == (number == 1)


@pytest.mark.parametrize("damage", ["truncated", "emptied"])
def test_a_checkpoint_without_a_checksum_is_looked_into(damage: str, whole: Outcome, tmp_path: Path) -> None:
    found = cut(tmp_path)
    for path in found:
        seal_path(path).unlink()
    assert last_checkpoint(tmp_path / "checkpoints", NOWHERE) == (found[0], 6), "as runs made before have them"
    DAMAGE[damage](found[0])
    assert train(tmp_path) == whole


class Evil:
    """A pickle that would run code."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_run_code_is_refused(
    sealed: bool, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "step-3.ckpt"
    if zipped:
        torch.save({"state_dict": {}, "x": Evil()}, path)
    else:
        path.write_bytes(pickle.dumps(Evil()))
    if sealed:
        checkpoints.seal(path, checkpoints.file_hash(path))
    with pytest.raises(CheckpointError, match="refused") as caught:
        last_checkpoint(tmp_path, NOWHERE)
    assert str(path) in str(caught.value)
    assert not (tmp_path / "pwned").exists()


class Full:
    """A disk with room for so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, data: Any) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return int(self.file.write(data))


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "step-4.ckpt"
    SafeCheckpointIO().save_checkpoint({"x": torch.ones(10)}, place)
    monkeypatch.setattr(checkpoints, "open", lambda *a: Full(open(*a), 3000), raising=False)  # noqa: SIM115
    with pytest.raises(SpikeLMError, match=r"No space left") as caught:
        SafeCheckpointIO().save_checkpoint({"x": torch.ones(10_000)}, tmp_path / "step-6.ckpt")
    assert str(tmp_path) in caught.value.what
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-4.ckpt", "step-4.ckpt.sha256"]
    assert last_checkpoint(tmp_path, NOWHERE) == (place, 4)


def test_what_the_disk_changed_on_the_way_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints.os, "fsync", lambda fd: os.pwrite(fd, b"\xff", 200))
    with pytest.raises(CheckpointError, match="read back"):
        SafeCheckpointIO().save_checkpoint({"x": torch.ones(1000)}, tmp_path / "step-6.ckpt")
    assert last_checkpoint(tmp_path, NOWHERE) is None


def test_metrics_that_were_deleted_come_back_with_the_checkpoint(whole: Outcome, tmp_path: Path) -> None:
    with pytest.raises(Hit):
        train(tmp_path, Once(("train", 5), hit))
    (tmp_path / "metrics.csv").unlink()
    assert train(tmp_path) == whole


def test_a_checkpoint_that_would_leave_a_hole_in_the_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Hit):
        train(tmp_path, Once(("train", 5), hit))
    (path, _) = last_checkpoint(tmp_path / "checkpoints", NOWHERE)
    saved = torch.load(path, weights_only=True)
    del saved[checkpoints.HISTORY]
    SafeCheckpointIO().save_checkpoint(saved, path)
    before = (tmp_path / "metrics.csv").read_bytes()
    with pytest.raises(CheckpointError, match="does not hold the metrics") as caught:
        train(tmp_path)
    assert f"rm {path}" in caught.value.fix
    assert (tmp_path / "metrics.csv").read_bytes() == before
