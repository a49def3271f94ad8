"""The run that a command line names, and what a person is told of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spikelm.errors import CheckpointError, ConfigError, SpikeLMError
from spikelm.report.query.output import naming_it, own_store
from spikelm.store.store import RESULT_ONLY, Run, Store

if TYPE_CHECKING:
    from spikelm.config.settings.schema import Config
    from spikelm.store.result import Result

LISTED = 12  # candidates, at most
_FOLDER = re.compile(r".+-[0-9a-f]{8}(?:[0-9a-f]{8})?")  # how the folder of a run is called


@dataclass(frozen=True)
class FoundRun:
    """A run in a store, with its result where it is finished."""

    run: Run
    result: Result | None
    config: Config | None  # of the result, or of config.yaml where it can be read

    def __str__(self) -> str:
        """Id, task, system, seed, state and folder: what a command says of the run that it took."""
        about = [] if self.config is None else [self.config.task.name, self._system(self.config)]
        about += [f"seed {self.config.seed}"] if self.config else []
        return f"run {self.run.id}: {', '.join([*about, self.run.state])}, in {self.run.directory}"

    def _system(self, config: Config) -> str:
        from spikelm.runs.labels import title, with_steps

        return with_steps(self.result.system if self.result else title(config), config)


def find_run(name: str, root: Path) -> FoundRun:
    """The one run with this directory, or whose id begins with these digits; several are an error that lists them."""
    wanted, last = Path(name).absolute(), name.rstrip("/").rpartition("/")[2]
    store = Store(wanted.parent.parent if wanted.is_dir() and _FOLDER.fullmatch(last) else root)
    runs = list(store.runs())
    matches = [run for run in runs if run.directory == wanted]
    if not matches and _FOLDER.fullmatch(last):
        matches = [run for run in runs if run.directory.name == last]
    if not matches and re.fullmatch("[0-9a-f]{1,16}", name):
        matches = [run for run in runs if run.id.startswith(name)]
    if not matches:
        listing = f"spikelm-report runs{naming_it(store.root)}"
        raise ConfigError(f"no run {name} in {store.root}", f"{listing} lists the runs")
    found = [_read(run) for run in matches]
    if len(found) == 1:
        return found[0]
    lines = [f"  {one}" for one in found[:LISTED]]
    lines += [f"  and {len(found) - LISTED} more" for _ in found[LISTED : LISTED + 1]]
    raise ConfigError("\n".join([f"{name} fits {len(found)} runs in {store.root}:", *lines]), "give more digits")


def find_result(name: str, root: Path) -> tuple[FoundRun, Result]:
    """A finished run and its result."""
    found = find_run(name, root)
    if found.result is None:
        from spikelm.report.query.rerun import rerun_command

        command = rerun_command(found.config) if found.config else ""
        fix = f"it goes on where it stopped: {command}" if command else "run it again: it goes on where it stopped"
        raise SpikeLMError(f"{found} is not finished", fix)
    return found, found.result


def weights_of(found: FoundRun, result: Result) -> Path:
    """The folder of a finished run's weights; where there are none, an error with the command that makes them."""
    if (found.run.model / "config.json").is_file():
        return found.run.model
    from spikelm.report.query.rerun import rerun_command

    state = f"{RESULT_ONLY}: its weights are" if found.run.has_only(result) else "its weights are"
    raise CheckpointError(
        f"run {found.run.id} ({found.run.directory}): {state} not there",
        f"make the run again: {rerun_command(result.config)}{_force(found.run.id)}",
    )


def _force(id: str) -> str:
    """What the command needs where the user's own store has a result of the run already."""
    own = Store(own_store()).find(id)
    return " force=true" if own is not None and own.finished else ""


def _read(run: Run) -> FoundRun:
    result = run.result()
    return FoundRun(run, result, result.config if result else run.saved_config())
