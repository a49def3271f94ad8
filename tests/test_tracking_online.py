"""Online, a sweep of N jobs is N runs on the server, each with its group, tags, curve and summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from wandb_server import WandbServer

KEY = "5ec2e7" * 6 + "5ec2"  # looks like an API key


def test_two_jobs_are_two_runs_with_all_they_logged(tmp_path: Path) -> None:
    server = WandbServer()
    known = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    known |= {"HOME": str(tmp_path), "WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY}
    known |= {"WANDB_ERROR_REPORTING": "false", "SPIKELM_RUNS": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "spikelm.cli", "-m", "scale=smoke", "tracker.mode=online"]
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
