"""The memory that this process may use: what is available on the machine, and no more than its container's share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
LIMIT = Path("/sys/fs/cgroup/memory.max")
USED = Path("/sys/fs/cgroup/memory.current")


@dataclass(frozen=True)
class Memory:
    """GB (1e9 bytes): all of it, and what is free for a new process."""

    total_gb: float
    available_gb: float


def memory() -> Memory | None:
    """None where the system does not say (it is no Linux)."""
    try:
        sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", MEMINFO.read_text(), re.MULTILINE))
        total, available = (int(sizes[name]) * 1024 / 1e9 for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError):
        return None
    limit, used = _bytes(LIMIT), _bytes(USED)
    if limit is not None:
        total = min(total, limit / 1e9)
        available = min(available, (limit - (used or 0)) / 1e9)
    return Memory(total, available)


def _bytes(path: Path) -> int | None:
    """The number in a file; None where there is none, or where it says max."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
