"""N jobs are N runs, and each offline file holds what was logged: read with W&B's own reader, not by its bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spikelm.runs.tracking import TrackedRun, make_tracker

JOBS = {f"{number:016x}": 0.5 * number for number in (1, 2, 3)}


def read_back(path: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_job_is_a_run_of_its_own_and_holds_what_was_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    said: list[str] = []
    tags = ["mini", "embedded", "glue/rte", "lif", "table3"]
    for id, scale in JOBS.items():
        config = {"k": 2, "T": 4}
        run = TrackedRun("spikelm", None, id, f"run {id}", "table3 lif_bert", tags, config, tmp_path / id, "glue/rte")
        tracker = make_tracker(run, "offline", said.append)
        for step in (20, 40):
            tracker.log(step, {"train/loss": scale * step})
        tracker.summary({"score": scale})
        tracker.finish(ok=True)
    assert said == []
    files = {path.stem.removeprefix("run-"): path for path in tmp_path.glob("*/wandb/offline-run-*/run-*.wandb")}
    assert set(files) == set(JOBS)
    for id, scale in JOBS.items():
        records = read_back(files[id])
        (about,) = [record["run"] for record in records if record["type"] == "run"]
        assert (about["run_id"], about["run_group"], about["job_type"]) == (id, "table3 lif_bert", "glue/rte")
        assert sorted(about["tags"]) == sorted(tags)
        assert {key: about["config"]["update"][key] for key in ("k", "T")} == {"k": 2, "T": 4}
        rows = [record["history"]["item"] for record in records if record["type"] == "history"]
        assert [(row["step"], row["train/loss"]) for row in rows] == [(20, 20 * scale), (40, 40 * scale)]
        updates = [record["summary"]["update"] for record in records if record["type"] == "summary"]
        assert [update["score"] for update in updates if "score" in update] == [scale]
        assert [record["exit"].get("exit_code", 0) for record in records if record["type"] == "exit"] == [0]
