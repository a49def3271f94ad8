"""The harness of the benchmarks: interleaved rounds, CPU and wall time, ratios, a table, a JSON record, the last one.

CPU time is the headline: machines are shared, and a job that waits for a core is not slow. Every round runs all
contestants, so that a slow moment hits all alike; medians and quartiles are over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from benchmarks.records import report
from spikelm.machine.cpu import keep_heap

__all__ = ["Timing", "arguments", "parser", "quartiles", "ratio", "report", "rounds", "settled", "slope", "spread"]


def parser(description: str, **sizes: int) -> argparse.ArgumentParser:
    """--quick, --repeats, --threads and one option per size."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="few repeats: does it run, not how fast")
    options.add_argument("--repeats", type=int, default=30, help="timed rounds (default: %(default)s)")
    options.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    for name, default in sizes.items():
        options.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help="default: %(default)s")
    return options


def arguments(description: str, heap: bool = True, **sizes: int) -> argparse.Namespace:
    """What the command line says of a benchmark that has no options but these."""
    return settled(parser(description, **sizes), heap)


def settled(options: argparse.ArgumentParser, heap: bool = True) -> argparse.Namespace:
    """What the command line says, with torch set to it; `heap` keeps freed memory with the process."""
    args = options.parse_args()
    if args.quick:
        args.repeats = min(args.repeats, 5)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if heap:  # for all contestants: fresh pages are dear, and their price is noise
        keep_heap()
    return args


@dataclass
class Timing:
    """The rounds of one contestant, in seconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median of the CPU time, summed over threads."""
        return statistics.median(self.cpu)

    def record(self) -> dict[str, float]:
        """Median and quartiles of the CPU time, median of the wall time."""
        low, middle, high = quartiles(self.cpu)
        return {"cpu": middle, "cpu_25": low, "cpu_75": high, "wall": statistics.median(self.wall)}


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """25, 50 and 75 percent; the value itself where there is one alone."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def rounds(contestants: Mapping[str, Callable[[], object]], repeats: int, warm: int = 1) -> dict[str, Timing]:
    """Every contestant once a round, after `warm` rounds that do not count."""
    for _ in range(warm):
        for run in contestants.values():
            run()
    timings = {name: Timing() for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            timings[name].cpu.append(time.process_time() - cpu)
            timings[name].wall.append(time.perf_counter() - wall)
    return timings


def ratio(one: Timing, other: Timing, times: float = 1.0) -> float:
    """The median over rounds of one's CPU time over `times` the other's in the same round."""
    return statistics.median(a / (times * b) for a, b in zip(one.cpu, other.cpu, strict=True))


def spread(one: Timing, other: Timing, times: float = 1.0) -> tuple[float, float]:
    """The quartiles of the same ratios: half of the rounds lie between them."""
    low, _, high = quartiles([a / (times * b) for a, b in zip(one.cpu, other.cpu, strict=True)])
    return low, high


def slope(sizes: list[float], seconds: list[float]) -> float:
    """p of the fit seconds = c size^p, least squares of the logarithms: 1 is linear, 2 is quadratic."""
    x, y = torch.tensor(sizes, dtype=torch.float64).log(), torch.tensor(seconds, dtype=torch.float64).log()
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / (x @ x))
