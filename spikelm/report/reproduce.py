"""Running what tables and figures still need: a plan first, then Hydra sweeps, watched through the store."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from spikelm.report.needs import Timings, needs_of, show_plan
from spikelm.report.overview import Overview, failures
from spikelm.report.selection import Results, Wanted
from spikelm.signals import Stopped
from spikelm.store import Store

PATIENCE = 10.0  # seconds
Words = tuple[str, ...]


def reproduce(
    title: str, wanted: Sequence[Wanted], results: Results, launcher: Sequence[str] = (), plan_only: bool = False
) -> int:
    """Run the missing ones of the wanted runs; finished ones are taken from the store. 0 when all are there.

    `launcher` is Hydra's, as overrides: hydra/launcher=slurm and its settings.
    """
    console = Console()
    root = results.selection.root
    found = [results.find(*one) for one in dict.fromkeys(wanted)]
    needs = needs_of(found, Timings(Store(root).results()))
    show_plan(title, needs, console)
    missing = [one.wanted for one in found if one.result is None]
    if not missing or plan_only:
        return 0
    overview, code = Overview(needs, console), 0
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
    for number, sweep in enumerate(sweeps_of(missing)):
        folder = root / "sweeps" / f"{stamp}-{number}"
        code = max(code, _run(sweep, results, launcher, folder, overview, console))
    return code


def _run(
    sweep: list[str], results: Results, launcher: Sequence[str], folder: Path, overview: Overview, console: Console
) -> int:
    """One sweep in a process of its own; what it prints goes to a file beside its records."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [*sweep, *results.selection.options, *launcher, f"hydra.sweep.dir={folder}"]
    log = folder / "output.txt"
    console.print(f"  output of its runs: {log}", soft_wrap=True, highlight=False)
    with open(log, "w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "spikelm.cli", "-m", *words]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True) as process:
            try:
                code = overview.follow(process)
            except (KeyboardInterrupt, Stopped):
                _end(process)
                raise
    for record in failures(folder):
        console.print(f"  failed: {record.get('error', 'no record')}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"  retry: {shlex.join(['spikelm-run', *record['overrides']])}", markup=False, soft_wrap=True)
    if code and not failures(folder):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        console.print(f"  the sweep ended with code {code}:\n{tail}", markup=False, highlight=False)
    return code


def _end(process: subprocess.Popen[str]) -> None:
    """Ctrl-C on a terminal reaches the sweep as well; a signal sent to us alone does not."""
    try:
        process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()


def sweeps_of(missing: Sequence[Wanted]) -> list[list[str]]:
    """Hydra sweeps whose products are exactly the missing runs: systems that lack the same tasks go together.

    Task after task, so that jobs side by side pretrain their own systems and none waits for another's.
    """
    tasks: dict[tuple[str, int, Words], list[str]] = {}
    for one in missing:
        tasks.setdefault((one.system, one.seed, one.extra), []).append(one.task)
    systems: dict[tuple[Words, int, Words], list[str]] = {}
    for (system, seed, extra), lacking in tasks.items():
        systems.setdefault((tuple(lacking), seed, extra), []).append(system)
    seeds: dict[tuple[Words, Words, Words], list[str]] = {}
    for (lacking_tasks, seed, extra), having in systems.items():
        seeds.setdefault((tuple(having), lacking_tasks, extra), []).append(str(seed))
    return [
        [f"task={','.join(todo)}", f"system={','.join(names)}", f"seed={','.join(several)}", *extra]
        for (names, todo, extra), several in seeds.items()
    ]
