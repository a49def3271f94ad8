"""The run that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spikelm.errors import SpikeLMError

if TYPE_CHECKING:
    from spikelm.store.result import Result


def find_result(name: str, root: Path) -> tuple[Result, Path]:
    """A finished result by run directory or by the first digits of its id."""
    from spikelm.store.store import Store

    wanted = Path(name).absolute()
    digits = name.rstrip("/").rpartition("-")[2]
    store = Store(wanted.parent.parent if wanted.is_dir() else root)
    matches = [run for run in store.runs() if run.directory == wanted or run.id.startswith(digits)]
    if not matches:
        raise SpikeLMError(f"no run {name} under {store.root}", "spikelm-report lists the runs")
    result = matches[0].result()
    if result is None:
        raise SpikeLMError(
            f"run {name} is not finished ({matches[0].state})", "run it again: it goes on where it stopped"
        )
    return result, matches[0].directory
