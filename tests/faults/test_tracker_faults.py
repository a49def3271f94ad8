"""W&B unreachable, hanging, answering 500 or dying in the middle: training does not notice, metrics.csv is complete."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from bad_server import BadServer
from commands import SMALL, Command, call
from test_kills import outcome

pytestmark = [pytest.mark.slow, pytest.mark.faults]
KEY = "5ec2e7" * 6 + "5ec2"
ARGS = (*SMALL[:-1], "task=pretrain", "pretrain.steps=60")


def seconds(runs: Path) -> float:
    """Of training and measuring, as the result has it."""
    (path,) = runs.glob("pretrain/*/result.json")
    return float(json.loads(path.read_text())["seconds"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    code, said = call(folder / "log", *ARGS, "tracker.mode=disabled", f"runs_dir={folder / 'runs'}")
    assert code == 0, said
    return folder / "runs"


@pytest.mark.parametrize("mode", ["unreachable", "hang", "500", "dies"])
def test_training_does_not_notice(mode: str, alone: Path, tmp_path: Path) -> None:
    server = BadServer("works" if mode == "dies" else mode)
    if mode == "unreachable":
        server.stop()
    env = {"WANDB_MODE": "online", "WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "HOME": str(tmp_path / "home")}
    runs = tmp_path / "runs"
    began = time.monotonic()
    command = Command(tmp_path / "log", *ARGS, "tracker.mode=online", f"runs_dir={runs}", **env)
    if mode == "dies":
        assert command.until(lambda: any("file_stream" in path for path in server.paths)), command.said
        server.stop()
    assert command.wait() == 0, command.said
    took = time.monotonic() - began
    assert outcome(runs, "pretrain") == outcome(alone, "pretrain")
    said = " ".join(command.said.split())
    assert "wandb sync" in said, "how to upload later"
    assert "Traceback" not in said
    assert seconds(runs) < 2 * seconds(alone) + 20, "at full speed; generous, for a busy machine"
    for path in [tmp_path / "log", *runs.rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    print(f"{mode}: trained in {seconds(runs):.1f} s (alone {seconds(alone):.1f} s), {took:.1f} s in all")
