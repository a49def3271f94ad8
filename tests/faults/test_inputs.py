"""500 random overrides and 500 random files, and memory that runs out in one job of a sweep."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from commands import SMALL, Command
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "data")]

import bad_files  # noqa: E402
import bad_overrides  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.faults]
MANY = settings(
    max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)


def test_random_overrides() -> None:
    seen: Counter[str] = Counter()

    @MANY
    @given(bad_overrides.OVERRIDES, st.booleans())
    def try_one(overrides: list[str], multirun: bool) -> None:
        said = bad_overrides.examined(overrides, multirun)
        seen["valid" if said == "valid" else "refused"] += 1

    try_one()
    for overrides in bad_overrides.nudged(250, seed=1):
        seen["valid" if bad_overrides.examined(overrides) == "valid" else "refused"] += 1
    print(dict(seen))
    assert min(seen["valid"], seen["refused"]) > 20


def test_random_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    from spikelm.data.tokens.wordpiece import train_wordpiece

    tokenizer = train_wordpiece(["a b c d e f g."], 60)
    seen: Counter[str] = Counter()

    @MANY
    @given(bad_files.BYTES)
    def try_one(file: tuple[str, bytes]) -> None:
        said = bad_files.examined(tmp_path_factory.mktemp("files"), *file, tokenizer)
        seen["read" if said == "read" else "refused"] += 1

    try_one()
    print(dict(seen))
    assert seen["read"]


def test_memory_that_runs_out_in_one_job_leaves_the_others(tmp_path: Path) -> None:
    # A hundred gigabytes in one matrix do not fit into twenty.
    sizes = "backbone.intermediate=128,400000000"
    args = ("-m", *SMALL, "task=pretrain", "pretrain.steps=2", sizes, f"runs_dir={tmp_path}/runs")
    command = Command(tmp_path / "log", *args, SPIKELM_TEST_MEMORY="20000000000")
    assert command.wait() == 1, command.said
    said = " ".join(command.said.split())
    assert "1 of 2 jobs finished" in said, said
    assert "out of memory in training pretrain with pretrain.batch=16" in said
    assert "needs less: trainer.micro_batch=8" in said
    assert "Traceback" not in said
