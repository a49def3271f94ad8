"""Eight processes that want the same runs: each is trained once, the others wait and use it; the dead hold nothing."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from commands import SMALL, Command

pytestmark = [pytest.mark.slow, pytest.mark.faults]


def trained(said: str) -> list[str]:
    return re.findall(r"^run ([0-9a-f]{16}) in ", said, re.MULTILINE)


def test_eight_processes_train_each_run_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    commands = [
        Command(tmp_path / f"log-{n}", *SMALL, f"task=glue/{('rte', 'mrpc')[n % 2]}", f"runs_dir={runs}")
        for n in range(8)
    ]
    assert [command.wait() for command in commands] == [0] * 8, "\n".join(command.said for command in commands)
    made = [id for command in commands for id in trained(command.said)]
    found = [json.loads(path.read_text())["run_id"] for path in runs.glob("*/*/result.json")]
    assert sorted(made) == sorted(found)
    assert len(found) == 3, "one pretraining, two fine-tunings"
    waited = [command for command in commands if "waiting for it" in command.said]
    assert len(waited) >= 6, "all but those that trained"
    print(f"{len(found)} runs for 8 processes, {len(waited)} of which said that they wait")


def test_what_a_killed_process_held_is_taken_over(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first = Command(tmp_path / "first", *SMALL, "task=pretrain", "pretrain.steps=200", f"runs_dir={runs}")
    assert first.until(lambda: list(runs.glob("pretrain/*/checkpoints/*.ckpt")))
    others = [
        Command(tmp_path / f"log-{n}", *SMALL, "task=pretrain", "pretrain.steps=200", f"runs_dir={runs}")
        for n in range(3)
    ]
    assert all(other.until(lambda o=other: "waiting for it" in o.said) for other in others)
    first.hit(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert [other.wait() for other in others] == [0] * 3
    assert sum("going on from step" in other.said for other in others) == 1
    assert all(f"process {first.process.pid} on" in other.said for other in others), "who holds it is named"
