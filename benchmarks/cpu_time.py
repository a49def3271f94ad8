"""CPU seconds instead of wall-clock ones: on a machine that others use too, only these can be compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved_cpu(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each contestant; every round runs all of them, after one that does not count."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
