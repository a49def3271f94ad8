"""Python commands as contestants: each a process of its own, timed by its CPU seconds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.timing import Timing

PROJECT = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    """Ours, with the checkout on the path."""
    return {**os.environ, "PYTHONPATH": str(PROJECT), **more}


def run_python(arguments: Sequence[str], **more: str) -> tuple[str, float, float]:
    """What a command printed, its CPU and its wall seconds; a failed check of a config (code 2) is an answer, too."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env=environment(**more), capture_output=True, text=True, cwd=PROJECT, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 2):
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def children(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, Timing]:
    """Every command once a round, after one round that does not count."""
    timings = {name: Timing() for name in commands}
    for number in range(repeats + 1):
        for name, command in commands.items():
            _, cpu, wall = run_python(command)
            if number:
                timings[name].cpu.append(cpu)
                timings[name].wall.append(wall)
    return timings
