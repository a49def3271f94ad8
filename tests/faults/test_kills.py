"""SIGKILL at random moments, Ctrl-C and the signals of a scheduler: the run that goes on ends like one left alone."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, Command, call

from spikelm.store.metrics_csv import MetricsCsv
from spikelm.training.checkpoints import checkpoints, step_of

pytestmark = [pytest.mark.slow, pytest.mark.faults]
LONG = (*SMALL, "pretrain.steps=40", "finetune.epochs=8", "trainer.checkpoint_every=5", "trainer.log_every=1")
KILLS = 10  # of each task


def outcome(runs: Path, task: str) -> dict[str, Any]:
    """All of a run that must not depend on what happened on the way."""
    (path,) = runs.glob(f"{task}/*/result.json")
    return outcome_of(path)


def outcome_of(path: Path) -> dict[str, Any]:
    result = json.loads(path.read_text())
    kept = ("metrics", "firing_rate", "energy_mj", "spike_driven", "steps", "source", "run_id", "parameters")
    rows = MetricsCsv(path.parent / "metrics.csv").rows()
    return {**{key: result[key] for key in kept}, "rows": sorted(rows), "count": len(rows)}


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    code, said = call(folder / "log", *LONG, "task=glue/rte", "select=best_dev", f"runs_dir={folder / 'runs'}")
    assert code == 0, said
    return folder / "runs"


@pytest.fixture(scope="module")
def whole(left_alone: Path) -> dict[str, dict[str, Any]]:
    return {task: outcome(left_alone, task) for task in ("pretrain", "glue-rte")}


def newest(runs: Path, task: str) -> int:
    found = [path for folder in runs.glob(f"{task}/*/checkpoints") for path in checkpoints(folder)]
    return max(map(step_of, found), default=0)


def strike(command: Command, runs: Path, task: str, chance: random.Random) -> str:
    """Kill a command at a moment of some kind in the run of a task; which one, or `ended` when that was quicker."""
    kind = chance.choice(["any moment", "in training", "in training", "checkpoint being written", "at its end"])
    before, wait = newest(runs, task), {"pretrain": 1.5, "glue-rte": 0.5}[task]
    if kind == "any moment":
        end = time.monotonic() + chance.uniform(0, 8 * wait)
        alive = command.until(lambda: time.monotonic() > end)
    elif kind == "in training":
        alive = command.until(lambda: newest(runs, task) > before or _done(runs, task))
        time.sleep(chance.uniform(0, wait))
    elif kind == "checkpoint being written":
        alive = command.until(lambda: list(runs.glob(f"{task}/*/checkpoints/.*.tmp")) or _done(runs, task))
    else:
        last = {"pretrain": 40, "glue-rte": 48}[task]
        alive = command.until(lambda: newest(runs, task) == last or _done(runs, task))
        time.sleep(chance.uniform(0, wait / 3))
    if not alive or not command.process.is_alive():
        return "ended"
    command.hit(signal.SIGKILL)
    return kind


def _done(runs: Path, task: str) -> bool:
    return any(runs.glob(f"{task}/*/result.json"))


@pytest.mark.parametrize("task", ["pretrain", "glue-rte"])
def test_random_kills_change_nothing(
    task: str, left_alone: Path, whole: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    chance = random.Random(8)
    struck: list[tuple[str, int]] = []
    rounds = 0
    while len(struck) < KILLS:
        runs = tmp_path / f"runs-{rounds}"
        rounds += 1
        if task == "glue-rte":  # its prerequisite is there
            shutil.copytree(left_alone / "pretrain", runs / "pretrain")
        while len(struck) < KILLS and not _done(runs, task):
            log = tmp_path / f"log-{len(struck)}-{rounds}"
            kept = newest(runs, task)
            command = Command(log, *LONG, "task=glue/rte", "select=best_dev", f"runs_dir={runs}")
            kind = strike(command, runs, task, chance)
            code = command.wait()
            if "going on from step" in command.said:
                assert f"going on from step {kept} " in command.said, "nothing finished is repeated"
            if kind == "ended" or code == 0:  # the last moment may pass between looking and striking
                assert code == 0, command.said
                break
            assert code == -signal.SIGKILL
            struck.append((kind, newest(runs, task)))
        code, said = call(tmp_path / f"last-{rounds}", *LONG, "task=glue/rte", "select=best_dev", f"runs_dir={runs}")
        assert code == 0, said
        for name, expected in whole.items():
            assert outcome(runs, name) == expected
    print(f"{len(struck)} kills over {rounds} runs of {task}: {struck}")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)], ids=str
)
@pytest.mark.parametrize("task", ["pretrain", "glue-rte"])
def test_asked_to_stop_it_keeps_the_step_and_says_so(
    task: str, number: int, code: int, whole: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    args = (*LONG, "task=glue/rte", "select=best_dev", "trainer.checkpoint_every=1000", f"runs_dir={tmp_path / 'runs'}")
    command = Command(tmp_path / "log", *args)
    folder = tmp_path / "runs"
    assert command.until(lambda: any("train/loss" in path.read_text() for path in folder.glob(f"{task}/*/metrics.csv")))
    asked = time.monotonic()
    command.hit(number)
    assert command.wait() == code, command.said
    took = time.monotonic() - asked
    assert "the same command goes on from the last checkpoint" in command.said
    assert "Traceback" not in command.said
    kept = newest(folder, task)
    assert kept > 0
    (path,) = folder.glob(f"{task}/*/metrics.csv")
    assert max(row[0] for row in MetricsCsv(path).rows()) == kept, "no step is lost"
    again, said = call(tmp_path / "again", *args)
    assert again == 0, said
    assert f"going on from step {kept} " in said
    assert {task: outcome(folder, task) for task in whole} == whole
    print(f"stopped after {took:.1f} s at step {kept}")
