"""Sweeps: each job leaves a record in the sweep's folder, a callback shows them all at the end."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from spikelm.catalog.quantities import rate_text, significant
from spikelm.config.redact import redacted
from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.store.atomic import write_atomic
from spikelm.sweeps.gpu_slots import claim_for

if TYPE_CHECKING:
    from rich.console import Console

    from spikelm.runs.experiment import Finished
    from spikelm.runs.plan import PlannedRun

#: failed jobs of the sweep that just ended in this process; the exit code follows
failures: list[JobRecord] = []
#: jobs whose record could not be written
unrecorded: list[int] = []
RECORD = "job.json"


@dataclass(frozen=True)
class JobResult:
    """What a finished job says in its record: its run and the numbers of the sweep's table."""

    run_id: str
    directory: str
    first_metric: str  # name and value
    energy_fp32: float | None  # mJ
    firing_rate: float | None
    unfolds: bool


@dataclass(frozen=True)
class JobRecord:
    """job.json: how one job of a sweep ended."""

    job: int
    overrides: list[str]
    status: Literal["finished", "planned", "failed"]
    error: str = ""
    result: JobResult | None = None
    plan: PlannedRun | None = None

    @property
    def retry(self) -> str:
        """The command that runs it again."""
        return shlex.join(["spikelm-run", *self.overrides])


def run_job(config: Config, runner: Callable[[Config], PlannedRun | Finished]) -> None:
    """Run one job and record how it ended; Ctrl-C still stops the sweep."""
    from spikelm.runs.plan import PlannedRun

    hydra = HydraConfig.get()
    number, overrides = int(hydra.job.num), list(hydra.overrides.task)
    try:
        if "joblib" in str(hydra.launcher.get("_target_", "")):
            claim_for(config, lambda text: print(f"job {number}: {text}", file=sys.stderr))
        done = runner(config)
        if isinstance(done, PlannedRun):
            record = JobRecord(number, overrides, "planned", plan=done)
        else:
            record = JobRecord(number, overrides, "finished", result=_job_result(done))
    except Exception as error:
        what = redacted(str(error) if isinstance(error, SpikeLMError) else f"{type(error).__name__}: {error}")
        record = JobRecord(number, overrides, "failed", what)
        print(f"error: job {number}: {what}", file=sys.stderr)
    write_record(Path(hydra.runtime.output_dir), record)


def _job_result(finished: Finished) -> JobResult:
    result = finished.result
    return JobResult(
        run_id=result.run_id,
        directory=str(finished.directory),
        first_metric=result.first_metric,
        energy_fp32=result.energy_mj.fp32,
        firing_rate=result.firing_rate.mean,
        unfolds=result.firing_rate.unfolds,
    )


def write_record(folder: Path, record: JobRecord) -> None:
    """Leave a job's record; where that fails the sweep goes on, and its exit code tells."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / RECORD, json.dumps(asdict(record), indent=1))
    except (OSError, SpikeLMError) as error:
        unrecorded.append(record.job)
        print(f"error: job {record.job} is not recorded: {error}", file=sys.stderr)


def records_of(folder: Path) -> list[JobRecord]:
    """What the jobs of a sweep left in its folder, in their order."""
    records = [_read_record(path) for path in folder.glob(f"*/{RECORD}")]
    return sorted(records, key=lambda record: record.job)


def _read_record(path: Path) -> JobRecord:
    from spikelm.runs.plan import planned_run

    raw = json.loads(path.read_text())
    result = JobResult(**raw.pop("result")) if raw["result"] else None
    plan = planned_run(raw.pop("plan")) if raw["plan"] else None
    return JobRecord(**{**raw, "result": result, "plan": plan})


class SweepSummary(Callback):
    """Hydra callback: at the end of a sweep, a table of its jobs and the commands that retry what failed."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from rich.console import Console
        from rich.markup import escape

        records = records_of(Path(config.hydra.sweep.dir))
        failures[:] = [record for record in records if record.status == "failed"]
        if not records:
            return
        console = Console()
        if plans := [record.plan for record in records if record.plan is not None]:
            from spikelm.runs.plan import show_plans

            show_plans(plans, console)
        else:
            _show_jobs(records, console)
        for record in failures:
            console.print(f"[red]job {record.job} failed:[/red] {escape(record.error)}")
            console.print(f"  retry: {record.retry}", markup=False, soft_wrap=True)


def _show_jobs(records: list[JobRecord], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    common = set.intersection(*(set(record.overrides) for record in records)) if len(records) > 1 else set()
    table = Table(
        title=f"sweep: {len(records) - len(failures)} of {len(records)} jobs finished",
        caption=escape(f"all with {' '.join(o for o in records[0].overrides if o in common)}") if common else None,
    )
    for column in ("job", "overrides", "score", "firing rate", "energy mJ"):
        table.add_column(column, justify="left" if column == "overrides" else "right")
    for record in records:
        cells = [str(record.job), escape(" ".join(o for o in record.overrides if o not in common))]
        table.add_row(*cells, *(_result_cells(record.result) if record.result else ["[red]failed[/red]", "", ""]))
    console.print(table)


def _result_cells(result: JobResult) -> list[str]:
    return [
        result.first_metric,
        "–" if result.firing_rate is None else rate_text(result.firing_rate, result.unfolds),
        "–" if result.energy_fp32 is None else significant(result.energy_fp32),
    ]
