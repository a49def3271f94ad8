"""Progress where nobody sees a bar: a word after the first step, then never a long silence."""

from __future__ import annotations

import io
import itertools
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from spikelm.training import callbacks
from spikelm.training.callbacks import ProgressLine


def lines(monkeypatch: pytest.MonkeyPatch, total: int, seconds: float, start: int = 0) -> list[tuple[int, float, str]]:
    """Step, time and text of each line of a training whose steps take so many seconds each."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock[0])
    trainer = SimpleNamespace(global_step=start, world_size=1)
    module = SimpleNamespace(trainer=trainer, device=torch.device("cpu"))
    printed = io.StringIO()
    line = ProgressLine(Console(file=printed, width=200), "pretrain", total)
    line.on_train_start(trainer, module)
    found = []
    for step in range(start + 1, total + 1):
        clock[0] += seconds
        trainer.global_step = step
        before = printed.tell()
        line.on_train_batch_end(trainer, module, {"loss": torch.tensor(0.5)}, None, 0)
        if printed.tell() > before:
            found.append((step, clock[0], printed.getvalue()[before:].strip()))
    line.on_train_end(trainer, module)
    return found


def test_the_first_step_is_told_at_once_and_without_a_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, 1000, 2.0)[0] == (1, 2.0, "pretrain: step 1/1000, loss 0.500")
    assert lines(monkeypatch, 1000, 2.0, start=300)[0][0] == 301


def test_a_fast_training_has_a_line_for_every_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [step for step, _, _ in lines(monkeypatch, 1000, 0.001)] == [1, *range(100, 1001, 100)]
    assert [step for step, _, _ in lines(monkeypatch, 1000, 0.001, start=250)] == [251, *range(300, 1001, 100)]


def test_a_slow_training_is_never_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(monkeypatch, 100_000, 1.0)
    times = [0.0, *(time for _, time, _ in told)]
    for before, after in itertools.pairwise(times):
        assert after - before <= max(21, 0.06 * after)
    assert 30 < len(told) < 300, "a day is no reason for thousands of lines"
    assert told[1][2].endswith("1000 ms per step, 27.8 h left")
    half = next(text for step, _, text in told if step == 50_000)
    assert half.endswith("1000 ms per step, 13.9 h left")
    assert told[-1][2].endswith("1000 ms per step"), "nothing is left"


def test_what_takes_less_than_a_second_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {step: text for step, _, text in lines(monkeypatch, 100, 0.01)}
    assert told[90].endswith("10 ms per step, 0.10 s left")
