"""Shared set-up: no network, no W&B account, one thread, a store of each test's own."""

from __future__ import annotations

import os
import signal

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "disabled"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"

from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell that starts tests in the background makes them deaf to Ctrl-C, which some of them send to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's own store, where a test has none of its own: never that of the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        store = tmp_path_factory.mktemp("own") / "runs"
        patch.setenv("SPIKELM_RUNS", str(store))
        yield store


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of this test's own, for in-process and subprocess calls."""
    monkeypatch.setenv("SPIKELM_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def eight_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A driver that tells of eight GPUs of 80 GB."""
    from fake_driver import forget_gpus, pretend_gpus

    pretend_gpus(8, tmp_path, monkeypatch)
    yield
    forget_gpus()


@pytest.fixture
def kept_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that end between their result and the removal of their checkpoints."""
    from spikelm.store.store import Run

    monkeypatch.setattr(Run, "forget_checkpoints", lambda run: None)
