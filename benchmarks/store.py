"""A store of many runs: looking one up, listing all, a table of the paper, the page; against one of a tenth of them.

python -m benchmarks.store [--quick] [--runs 2000]
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.timing import arguments, report
from spikelm.cli.report import main as report_command
from spikelm.config.compose import load_config
from spikelm.report.page.site import Site
from spikelm.runs.experiment import run_experiment
from spikelm.store.hashing import digest
from spikelm.store.result import Result
from spikelm.store.store import Store

TASKS = ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")


def main() -> None:
    args = arguments("Store", runs=2000)
    runs = min(args.runs, 100) if args.quick else args.runs
    with tempfile.TemporaryDirectory() as folder:
        result = _real_result(Path(folder) / "real")
        counts = (runs,) if args.quick else (runs // 10, runs)  # composing a table's configs takes most of the time
        sizes = {count: Path(folder) / str(count) for count in counts}
        found: dict[str, dict[int, float]] = {}
        for count, root in sizes.items():
            _fill(root, result, count)
            for name, act in _acts(root, table="9" if args.quick else "3").items():
                found.setdefault(name, {})[count] = _cpu(act)
        peak = _peak(lambda: Site(sizes[runs], seconds=0.0).build())
    rows = [
        {
            "what": name,
            f"{runs} / {counts[0]} runs": "" if args.quick else seconds[runs] / seconds[counts[0]],
            "CPU seconds": seconds[runs],
        }
        for name, seconds in found.items()
    ]
    report("store", f"a store of {runs} runs (the page held {peak:.0f} MB at its peak)", rows, args)


def _real_result(root: Path) -> Result:
    """Of a run that was really made: the others are copies of it under ids, tasks and seeds of their own."""
    words = ["scale=smoke", "task=glue/sst2", "neuron=lif", "tracker.mode=disabled", f"runs_dir={root}"]
    return run_experiment(load_config(words), Console(quiet=True)).result


def _fill(root: Path, result: Result, count: int) -> None:
    for number in range(count):
        task = f"glue/{TASKS[number % 8]}"
        id = digest(["made up", number])[:16]
        folder = root / task.replace("/", "-") / f"lif-s{number}-{id[:8]}"
        folder.mkdir(parents=True)
        config = replace(result.config, seed=number, task=replace(result.config.task, name=task))
        changed = {"run_id": id, "seed": number, "task": task, "config": config, "files": {}}
        (folder / "result.json").write_text(json.dumps(result.model_copy(update=changed).to_record()))
        (folder / "status.json").write_text(json.dumps({"run_id": id, "state": "finished"}))
        steps = "".join(f"{20 * step},train/loss,{2 / (1 + step)}\n" for step in range(100))
        (folder / "metrics.csv").write_text(f"step,name,value\n{steps}")


def _acts(root: Path, table: str) -> dict[str, Callable[[], object]]:
    last = digest(["made up", 7])[:16]

    def quietly(*words: str) -> Callable[[], object]:
        def act() -> None:
            with contextlib.redirect_stdout(io.StringIO()):
                report_command([*words, f"--runs-dir={root}"])

        return act

    return {
        "look a run up": lambda: Store(root).find(last),
        "read all results": lambda: Store(root).results(),
        "list the runs": quietly("runs"),
        f"table {table}": quietly("table", table, "--scale", "smoke"),
        f"table {table} again": quietly("table", table, "--scale", "smoke"),
        "the page": lambda: Site(root, seconds=0.0).build(),
        "the page again": lambda: Site(root, seconds=0.0).build(),
    }


def _cpu(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def _peak(act: Callable[[], object]) -> float:
    tracemalloc.start()
    act()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    main()
