"""Sweeps: each job leaves a record in the sweep's folder, a callback shows them all at the end."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from spikelm.config.redact import redacted
from spikelm.config.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.store.records import write_atomic

if TYPE_CHECKING:
    from rich.console import Console

#: failed jobs of the sweep that just ended in this process; the exit code follows
failures: list[dict[str, Any]] = []
#: jobs whose record could not be written
unrecorded: list[int] = []
RECORD = "job.json"


def run_job(config: Config, runner: Callable[[Config], dict[str, Any]]) -> None:
    """Run one job and record how it ended; Ctrl-C still stops the sweep."""
    hydra = HydraConfig.get()
    record: dict[str, Any] = {"job": hydra.job.num, "overrides": list(hydra.overrides.task)}
    try:
        result = runner(config)
        record |= {"status": "planned", "plan": result} if config.dry_run else _finished(result)
    except Exception as error:
        what = redacted(str(error) if isinstance(error, SpikeLMError) else f"{type(error).__name__}: {error}")
        record |= {"status": "failed", "error": what}
        print(f"error: job {hydra.job.num}: {what}", file=sys.stderr)
    write_record(Path(hydra.runtime.output_dir), record)


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Leave a job's record; where that fails the sweep goes on, and its exit code tells."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / RECORD, json.dumps(record, indent=1))
    except (OSError, SpikeLMError) as error:
        unrecorded.append(record["job"])
        print(f"error: job {record['job']} is not recorded: {error}", file=sys.stderr)


def _finished(result: dict[str, Any]) -> dict[str, Any]:
    found = {key: result[key] for key in ("run_id", "metrics", "directory", "energy_mj")}
    return {"status": "finished", "result": {**found, "firing_rate": result["firing_rate"]["mean"]}}


class SweepSummary(Callback):
    """Hydra callback: at the end of a sweep, a table of its jobs and the commands that retry what failed."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from rich.console import Console
        from rich.markup import escape

        records = records_of(Path(config.hydra.sweep.dir))
        failures[:] = [record for record in records if record["status"] == "failed"]
        if not records:
            return
        console = Console()
        if plans := [record["plan"] for record in records if record["status"] == "planned"]:
            from spikelm.runs.plan import show_plans

            show_plans(plans, console)
        else:
            _show_jobs(records, console)
        for record in failures:
            console.print(f"[red]job {record['job']} failed:[/red] {escape(record.get('error', 'no record'))}")
            console.print(f"  retry: {shlex.join(['spikelm-run', *record['overrides']])}", markup=False, soft_wrap=True)


def _show_jobs(records: list[dict[str, Any]], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    common = set.intersection(*(set(record["overrides"]) for record in records)) if len(records) > 1 else set()
    table = Table(
        title=f"sweep: {len(records) - len(failures)} of {len(records)} jobs finished",
        caption=escape(f"all with {' '.join(o for o in records[0]['overrides'] if o in common)}") if common else None,
    )
    for column in ("job", "overrides", "score", "firing rate", "energy mJ"):
        table.add_column(column, justify="left" if column == "overrides" else "right")
    for record in records:
        cells = [str(record["job"]), escape(" ".join(o for o in record["overrides"] if o not in common))]
        if record["status"] == "finished":
            cells += _cells(record["result"])
        else:
            cells += ["[red]failed[/red]", "", ""]
        table.add_row(*cells)
    console.print(table)


def _cells(result: dict[str, Any]) -> list[str]:
    name, value = next(iter(result["metrics"].items()))
    rate = result["firing_rate"]
    return [
        f"{name} {value:.2f}",
        "-" if rate is None else f"{rate:.1%}",
        "–" if result["energy_mj"]["fp32"] is None else f"{result['energy_mj']['fp32']:.4f}",
    ]


def records_of(folder: Path) -> list[dict[str, Any]]:
    """What the jobs of a sweep left in its folder, in their order."""
    records = [json.loads(path.read_text()) for path in folder.glob(f"*/{RECORD}")]
    return sorted(records, key=lambda record: record["job"])
