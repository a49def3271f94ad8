"""Online, a sweep of N jobs is N runs on the server, each with its group, tags and curve; so is what is sent later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wandb_server import WandbServer

from spikelm.runs.tracking import TrackedRun, make_tracker

KEY = "5ec2e7" * 6 + "5ec2"  # looks like an API key


def environment(server: WandbServer, home: Path) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    known |= {"HOME": str(home), "WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY}
    return known | {"WANDB_ERROR_REPORTING": "false"}


def test_two_jobs_are_two_runs_with_all_they_logged(tmp_path: Path) -> None:
    server = WandbServer()
    known = environment(server, tmp_path) | {"SPIKELM_RUNS": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "spikelm.cli.main", "-m", "scale=smoke", "tracker.mode=online"]
    command += ["system=bert", "task=glue/rte,glue/cola"]
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=300)
    server.stop()
    assert done.returncode == 0, done.stderr
    results = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/*/result.json")]
    assert set(server.runs) == {result["run_id"] for result in results}
    assert len(results) == 3, "the pretrained model is a run as well"
    for result in results:
        run = server.runs[result["run_id"]]
        assert run["groupName"].endswith("bert"), "table and system"
        assert run["jobType"] == result["task"]
        assert {"smoke", "embedded", result["task"]} <= set(run["tags"])
        logged = {row["step"]: row["train/loss"] for row in server.streams[result["run_id"]] if "train/loss" in row}
        kept = (tmp_path / "runs").glob(f"*/*{result['run_id'][:8]}/metrics.csv")
        written = [line.split(",") for line in next(kept).read_text().splitlines()]
        assert logged == {int(step): float(value) for step, name, value in written if name == "train/loss"}
        assert logged


def test_an_offline_run_is_sent_later_by_wandb_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    id, tags = f"{7:016x}", ["mini", "embedded", "glue/rte", "lif"]
    run = TrackedRun("spikelm", None, id, "a run", "table3 lif_bert", tags, {"k": 2}, tmp_path, "glue/rte")
    tracker = make_tracker(run, "offline", pytest.fail)
    for step in (20, 40):
        tracker.log(step, {"train/loss": 1 / step})
    tracker.finish(ok=True)
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    server = WandbServer()
    command = [sys.executable, "-m", "wandb", "sync", str(folder)]
    known = environment(server, tmp_path)  # its log goes to wandb/ of the current folder
    done = subprocess.run(command, env=known, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    server.stop()
    assert done.returncode == 0, done.stderr
    assert list(server.runs) == [id]
    assert (server.runs[id]["groupName"], server.runs[id]["jobType"]) == ("table3 lif_bert", "glue/rte")
    assert sorted(server.runs[id]["tags"]) == sorted(tags)
    assert [(row["step"], row["train/loss"]) for row in server.streams[id]] == [(20, 0.05), (40, 0.025)]
