"""Memory: the machine's, and no more than the container's share."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.machine import memory as module
from spikelm.machine.memory import Memory, memory


def test_memory_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(module, "LIMIT", tmp_path / "max")
    monkeypatch.setattr(module, "USED", tmp_path / "current")
    assert memory() is None
    (tmp_path / "meminfo").write_text("MemTotal:       1000000 kB\nMemFree: 1 kB\nMemAvailable:    500000 kB\n")
    assert memory() == Memory(1.024, 0.512)
    (tmp_path / "max").write_text("max\n")
    assert memory() == Memory(1.024, 0.512)
    (tmp_path / "max").write_text("400000000\n")
    (tmp_path / "current").write_text("100000000\n")
    assert memory() == Memory(0.4, 0.3)
