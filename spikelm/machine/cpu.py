"""What a CPU run needs and would otherwise have to be found out: a heap that is kept, and the cores that are there.

A training step frees and takes the same hundreds of megabytes again and again. glibc hands large pieces back to the
system at once, and every fresh page has to be cleared: on virtual machines that can cost more than the arithmetic.
Nothing here changes a digit of a result.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
from pathlib import Path

#: of malloc.h
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
QUOTA = Path("/sys/fs/cgroup/cpu.max")
SMALL = 40e6  # parameters up to which one thread a job makes the best use of a core


def keep_heap() -> bool:
    """Let freed memory stay with the process: no mmap for large pieces, no trimming; False where there is no glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, -1))  # -1: never


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its container's share."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
    except (OSError, ValueError):
        return bound
    return bound if quota == "max" else max(1, min(bound, math.ceil(int(quota) / int(period))))


def usable_threads() -> int:
    """Threads of one job: OMP_NUM_THREADS where it is set (a launcher of several jobs sets it), else all cores."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else usable_cores()


def sweep_jobs(parameters: float, cores: int) -> tuple[int, int]:
    """Jobs at a time and threads of each, for models of a size.

    Small matmuls gain little from a second thread, while a second job gains all: one thread each. Large ones share a
    memory bus and a cache, and there is memory for few of them: two cores a job.
    """
    threads = 1 if parameters <= SMALL else min(2, cores)
    return max(1, cores // threads), threads


def side_by_side(layers: int | None, hidden: int | None) -> int:
    """How many jobs of a transformer with so many layers of a width may run at a time on this machine.

    None: the sizes are those of given weights, which nobody has read yet; such models are seldom small.
    """
    parameters = math.inf if layers is None or hidden is None else 12 * layers * hidden**2  # six linears a layer
    return sweep_jobs(parameters, usable_cores())[0]
