"""An nvidia-smi that tells of GPUs which are not there, for tests of what is decided by their number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spikelm.machine import gpus

UUIDS = [f"GPU-{letter * 4}" for letter in "abcdefgh"]


def pretend_gpus(count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, memory_gb: float = 80.0) -> list[str]:
    """Put such a tool first on the PATH, for this process and those it starts; the UUIDs of its GPUs."""
    mebibytes = round(memory_gb * 1e9 / 2**20)
    lines = [f"{index}, {uuid}, Pretended GPU, {mebibytes}, 1.0" for index, uuid in enumerate(UUIDS[:count])]
    tool = folder / "bin" / "nvidia-smi"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    forget_gpus()
    return UUIDS[:count]


def forget_gpus() -> None:
    """What was told is asked again: the driver is cached."""
    gpus.ask_driver.cache_clear()
