"""Running what tables and figures still need: a plan first, then one Hydra sweep, watched through the store."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console

from spikelm.machine.disk import disk_errors
from spikelm.machine.signals import Stopped
from spikelm.report.query.selection import Results, Wanted
from spikelm.report.reproduce.launcher import jobs_at_once
from spikelm.report.reproduce.needs import needs_of
from spikelm.report.reproduce.phases import phases
from spikelm.report.reproduce.progress import Progress, failures
from spikelm.report.reproduce.show_needs import show_needs
from spikelm.report.tables.build import RefusedRow
from spikelm.runs.timings import timings_of
from spikelm.store.atomic import write_atomic
from spikelm.sweeps.job_file import CHOSEN, FILE, write_jobs

PATIENCE = 10.0  # seconds
JOBS = "jobs.txt"
Words = tuple[str, ...]


def reproduce(
    title: str,
    wanted: Sequence[Wanted],
    results: Results,
    launcher: Sequence[str],
    refused: Sequence[RefusedRow] = (),
    plan_only: bool = False,
) -> int:
    """Run the missing ones of the wanted runs; finished ones are taken from the store. 0 when all are there.

    `launcher` is Hydra's, as overrides: hydra/launcher=slurm and its settings.
    """
    console = Console()
    root = results.selection.root
    selected = [results.find(*one) for one in dict.fromkeys(wanted)]
    needs = needs_of(selected, timings_of(root))
    at_once = jobs_at_once(launcher, selected[0].config) if selected else 1
    show_needs(title, needs, console, at_once, refused)
    missing = [one for one in selected if one.result is None]
    if not missing or plan_only:
        return 0
    waited_for = {need.run.id for need in needs if need.needed}
    folder = root / "sweeps" / time.strftime("%Y-%m-%d_%H-%M-%S")
    progress, codes = Progress(needs, console, at_once), []
    for number, phase in enumerate(phases(missing, needs, launcher)):
        runs = phase.possible(console)
        if not runs:
            continue
        console.print(f"  {phase}", soft_wrap=True, highlight=False)
        jobs = job_lines([one.wanted for one in runs], {one.wanted for one in runs if one.run.id in waited_for})
        options = [*results.selection.options, f"runs_dir={root}", *phase.launcher]
        within = folder.with_name(f"{folder.name}-{number}") if number else folder
        codes.append(_run(jobs, options, within, progress, console))
    return max(codes, default=1)


def _run(
    jobs: Sequence[Sequence[str]], options: Sequence[str], folder: Path, progress: Progress, console: Console
) -> int:
    """The jobs as one sweep in a process of its own; what it prints goes to a file beside its records."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / JOBS, write_jobs(jobs))
    words = [CHOSEN, f"{FILE}{folder / JOBS}", *options, f"hydra.sweep.dir={folder}"]
    log = folder / "output.txt"
    console.print(f"  output of its runs: {log}", soft_wrap=True, highlight=False)
    with open(log, "w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "spikelm.cli.main", "-m", *words]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True) as process:
            try:
                code = progress.follow(process)
            except (KeyboardInterrupt, Stopped):
                _end(process)
                raise
    failed = failures(folder)
    for record in failed:
        console.print(f"  failed: {record.error}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"  retry: {record.retry}", markup=False, soft_wrap=True)
    if code and not failed:
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


def job_lines(missing: Sequence[Wanted], needed: Collection[Wanted] = ()) -> list[Words]:
    """The overrides of each missing run: those that others wait for, then task after task.

    So jobs side by side pretrain systems of their own, and teachers are there.
    """
    tasks = list(dict.fromkeys(one.task for one in missing))
    ordered = sorted(missing, key=lambda one: (one not in needed, tasks.index(one.task)))
    return [(f"task={one.task}", f"system={one.system}", f"seed={one.seed}", *one.extra) for one in ordered]
