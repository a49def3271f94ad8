"""What a benchmark leaves: a table of ratios, a JSON record with the machine's facts, and the comparison with the last.

`FOLDER/NAME.json` is the last record, NAME-quick.json that of the short form; every record is a line of NAME.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from spikelm.config.paths import default_runs_dir

Row = Mapping[str, Any]
WIDTH = 130  # of a table that goes to a file


def folder() -> Path:
    """runs/benchmarks of the store."""
    return Path(default_runs_dir()) / "benchmarks"


def processor() -> str:
    """The CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """What a reader needs to judge the numbers."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def report(name: str, title: str, rows: Sequence[Row], args: argparse.Namespace) -> None:
    """Print the rows' ratios as a table, beside those of the last record, and write them as JSON."""
    name = f"{name}-quick" if args.quick else name
    path = folder() / f"{name}.json"
    record = {
        "benchmark": name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "arguments": vars(args),
        "machine": machine(),
        "rows": list(rows),
    }
    last = _last(path, record)
    Console(width=None if sys.stdout.isatty() else WIDTH).print(_table(title, rows, last))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(record, indent=2) + "\n")
    part.replace(path)
    with path.with_suffix(".jsonl").open("a") as history:
        history.write(json.dumps(record) + "\n")
    Console().print(f"written to {path}", soft_wrap=True)


def _last(path: Path, now: Mapping[str, Any]) -> dict[str, Any] | None:
    """The last record of the same sizes, if there is one."""
    try:
        last: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    same = [{**record["arguments"], "repeats": None} for record in (last, now)]
    return last if same[0] == same[1] else None


def key(row: Row) -> tuple[Any, ...]:
    """What says which row it is: all that is not measured."""
    return tuple(value for value in row.values() if isinstance(value, str | int))


def _table(title: str, rows: Sequence[Row], last: Mapping[str, Any] | None) -> Table:
    before = {key(row): row for row in last["rows"]} if last else {}
    shown = [{column: value for column, value in row.items() if not isinstance(value, dict)} for row in rows]
    columns = {column: value for row in shown for column, value in row.items() if value not in ("", None)}
    table = Table(title=title)
    if last:
        table.caption = f"in brackets: {last['time']} ({last['machine']['processor']}) over now"
    for column, value in columns.items():
        side = "right" if isinstance(value, float) else "left"
        table.add_column(column, justify=side, no_wrap=isinstance(value, str))  # a name is never cut
    for row in rows:
        then = before.get(key(row), {})
        table.add_row(*(_cell(row.get(column), then.get(column)) for column in columns))
    return table


def _cell(now: Any, then: Any) -> str:
    if isinstance(now, tuple):
        return " to ".join(f"{value:.2f}" for value in now)
    if not isinstance(now, float):
        return "" if now is None else str(now)
    text = f"{now:.2f}" if abs(now) >= 0.1 else f"{now:.2g}"
    return f"{text} ({then / now:.2f})" if isinstance(then, float) and now else text
