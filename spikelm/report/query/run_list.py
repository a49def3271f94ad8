"""The runs of a store as a list."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.quantities import counted, duration, rate_text, significant
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.runs.labels import title, with_steps
from spikelm.store.result import Result
from spikelm.store.store import RESULT_ONLY, Run, Store

ALONE = "*"  # marks the score of a run of which only the result is there


def list_runs(root: Path) -> int:
    """Every run: state, headline score, firing rate, energy, seconds. Returns how many there are."""
    console = Console()
    runs = list(Store(root).runs())
    if not runs:
        console.print(f"no runs in {root} yet; the first one: spikelm-run", soft_wrap=True)
        return 0
    console.print(f"{counted(len(runs), 'run')} in {root}", soft_wrap=True, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for column in ("run", "task", "system", "data", "score or state"):
        table.add_column(column, overflow="fold", no_wrap=column in ("run", "task"))
    for column in ("firing", "mJ fp32", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for cells in (rows := [_cells(run) for run in runs]):
        table.add_row(*cells)
    console.print(table)
    if alone := sum(cells[4].endswith(ALONE) for cells in rows):
        console.print(
            f"{ALONE} {RESULT_ONLY}: {counted(alone, 'run')}, which came without weights and curves", soft_wrap=True
        )
    return len(runs)


def local_root(root: Path, scale: str) -> str:
    """The folder that the runs of a scale on local files were made from, when they agree on one."""
    configs = [result.config for result in Store(root).results() if result.scale == scale]
    folders = sorted({str(config.source.root) for config in configs if config.source.name == "local"})
    if len(folders) == 1:
        return folders[0]
    what = f"runs from {len(folders)} folders" if folders else "no runs from local files"
    raise ConfigError(f"{what} at scale {scale}: which files?", f"source.root={folders[0] if folders else 'DIR'}")


def _cells(run: Run) -> list[str]:
    result = run.result()
    config = result.config if result else run.saved_config()
    first = [run.id[:8], run.directory.parent.name.replace("-", "/", 1), *_settings(config, result)]
    if result is None:
        return [*first, run.state, "", "", ""]
    rate, energy = result.firing_rate.mean, result.energy_mj.fp32
    return [
        *first,
        f"{result.first_metric}{ALONE}" if run.has_only(result) else result.first_metric,
        "" if rate is None else rate_text(rate, result.firing_rate.unfolds),
        "" if energy is None else significant(energy),
        duration(result.seconds),
    ]


def _settings(config: Config | None, result: Result | None) -> list[str]:
    """What it is called, with T and the seed; scale and source."""
    if config is None:
        return ["?", "?"]
    name = result.system if result else title(config)
    return [f"{with_steps(name, config)} s{config.seed}", f"{config.scale} {config.rows_from}"]
