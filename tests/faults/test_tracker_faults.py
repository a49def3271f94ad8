"""W&B unreachable, hanging, answering 500 or dying in the middle: training does not notice, metrics.csv is complete."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from bad_server import BadServer
from commands import SMALL, Command, call
from test_kills import outcome

pytestmark = [pytest.mark.slow, pytest.mark.faults]
KEY = "5ec2e7" * 6 + "5ec2"
STEPS = 400
ARGS = (*SMALL[:-1], "task=pretrain", f"pretrain.steps={STEPS}", "trainer.checkpoint_every=1000")
PACE = re.compile(rf"step (\d+)/{STEPS}, loss \S+, (\d+) ms per step")


def pace(log: Path) -> float:
    """Milliseconds a step over the second half: its first one has the start of W&B, which is paid once."""
    said = {int(step): int(step) * int(mean) for step, mean in PACE.findall(" ".join(log.read_text().split()))}
    return (said[STEPS] - said[STEPS // 2]) / (STEPS / 2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    code, said = call(folder / "log", *ARGS, "tracker.mode=disabled", f"runs_dir={folder / 'runs'}")
    assert code == 0, said
    return folder


def test_offline_is_no_slower(alone: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code, said = call(tmp_path / "log", *ARGS, "tracker.mode=offline", f"runs_dir={runs}")
    assert code == 0, said
    assert outcome(runs, "pretrain") == outcome(alone / "runs", "pretrain")
    assert pace(tmp_path / "log") < 2 * pace(alone / "log"), "generous, for a busy machine"
    print(f"offline: {pace(tmp_path / 'log'):.0f} ms per step (alone {pace(alone / 'log'):.0f})")


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
    assert outcome(runs, "pretrain") == outcome(alone / "runs", "pretrain")
    said = " ".join(command.said.split())
    assert "wandb sync" in said, "how to upload later"
    assert "Traceback" not in said
    assert pace(tmp_path / "log") < 2 * pace(alone / "log"), "at full speed; generous, for a busy machine"
    for path in [tmp_path / "log", *runs.rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    print(f"{mode}: {pace(tmp_path / 'log'):.0f} ms per step (alone {pace(alone / 'log'):.0f}), {took:.1f} s in all")
