"""Running what a table still needs: a plan first, then one Hydra sweep over its systems and tasks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from rich.console import Console

from spikelm.compose import load_config
from spikelm.experiment import open_run
from spikelm.report.tables import PaperTable


def reproduce_table(table: PaperTable, options: Sequence[str], seeds: Sequence[int], launcher: str = "") -> int:
    """Run the table's missing runs as a sweep; finished ones are taken from the store. The sweep's exit code."""
    console = Console()
    wanted = [(system, task, seed) for system in table.systems for task in table.tasks for seed in seeds]
    open_runs = [
        open_run(load_config([f"system={system}", f"task={task}", f"seed={seed}", *options]))
        for system, task, seed in wanted
    ]
    done = sum(run.finished for run in open_runs)
    console.print(
        f"table {table.id}: {len(wanted)} runs ({len(table.systems)} systems x {len(table.tasks)} tasks"
        f"{f' x {len(seeds)} seeds' if len(seeds) > 1 else ''}), "
        f"{done} finished, {len(wanted) - done} to do"
    )
    if done == len(wanted):
        return 0
    sweep = [f"system={','.join(table.systems)}", f"task={','.join(table.tasks)}"]
    sweep += [f"seed={','.join(map(str, seeds))}", *options]
    if launcher:
        sweep.append(f"hydra/launcher={launcher}")
    return subprocess.run([sys.executable, "-m", "spikelm.cli", "-m", *sweep], check=False).returncode
