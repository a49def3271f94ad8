"""What the benchmarks share: interleaved timing, machine facts, a table and a JSON record of ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

FOLDER = Path("runs") / "benchmarks"


def arguments(description: str, **sizes: int) -> argparse.Namespace:
    """--quick, --repeats, --threads and one option per size."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="few repeats: does it run, not how fast")
    parser.add_argument("--repeats", type=int, default=30, help="timed rounds (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    args = parser.parse_args()
    if args.quick:
        args.repeats = min(args.repeats, 5)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return args


def interleaved(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each contestant; every round runs all of them, so a slow moment hits all alike."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def machine() -> dict[str, Any]:
    """What a reader needs to judge the numbers."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def report(name: str, title: str, rows: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> None:
    """Print the rows' ratios as a table and write them, with what they were measured on, as JSON."""
    table = Table(title=title)
    hidden = {"seconds"}
    for column in rows[0]:
        if column not in hidden:
            table.add_column(column, justify="right" if isinstance(rows[0][column], float) else "left")
    for row in rows:
        shown = (value for column, value in row.items() if column not in hidden)
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in shown))
    Console().print(table)
    record = {
        "benchmark": name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "arguments": vars(args),
        "machine": machine(),
        "rows": list(rows),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(record, indent=2) + "\n")
    part.replace(path)
    Console().print(f"written to {path}")
