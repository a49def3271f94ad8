"""The runs of a store as the page lists them: one small row each, broken records among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spikelm.config.settings.schema import Config
from spikelm.runs.labels import neuron_k, title
from spikelm.store.result import Result
from spikelm.store.store import RESULT_ONLY, Run, Store

#: what a run's page is made from; when none of them changes, neither does the page
RECORDS = ("result.json", "status.json", "config.yaml", "environment.json", "metrics.csv", "traceback.txt")
BROKEN = "broken"
FINISHED = "finished"
TAIL = 2000  # bytes of a metrics.csv that have its last step in them


@dataclass(frozen=True)
class Record:
    """One directory of the store, as it was read: its result, or why there is none."""

    directory: Path
    id: str | None
    state: str  # finished, result only, running, interrupted, failed, new or broken
    problem: str = ""
    result: Result | None = None
    config: Config | None = None  # of the result, or of config.yaml where it can be read

    @property
    def name(self) -> str:
        """The file of its page: the id, or the directory where no record gives one."""
        return self.id or re.sub(r"[^A-Za-z0-9._=+-]+", "-", f"{self.directory.parent.name}-{self.directory.name}")


@dataclass(frozen=True)
class RunRow:
    """What the list of runs shows and filters by; None or empty where it is not known."""

    name: str  # of its page
    id: str | None
    directory: str
    state: str
    problem: str
    progress: str
    task: str
    system: str
    neuron: str = ""
    T: int | None = None
    k: float | None = None
    scale: str = ""
    source: str = ""
    seed: int | None = None
    metric: str = ""
    score: float | None = None
    firing: float | None = None
    energy: float | None = None
    ann: float | None = None  # energy of the ANN
    seconds: float | None = None
    finished_at: str = ""


def fingerprint(directory: Path) -> list[int]:
    """Times and sizes of the records: what tells whether a page has to be made again."""
    facts: list[int] = []
    for name in RECORDS:
        try:
            about = (directory / name).stat()
            facts += [about.st_mtime_ns, about.st_size]
        except OSError:
            facts += [0, 0]
    return facts


def directories(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Every directory of a run, with its id where its records give one."""
    yield from Store(root).directories()


def read_record(root: Path, directory: Path, id: str | None) -> Record:
    """One run as far as it can be read; whatever its files hold, this does not raise."""
    run = Run(root, directory, id or "")
    if id is None:
        what = "no record gives the id of this run: status.json and result.json are missing or not readable"
        return Record(directory, None, BROKEN, what, config=run.saved_config())
    try:
        result, problem = run.examine()
    except OSError as error:
        result, problem = None, f"cannot be read: {error.strerror}"
    if problem:
        return Record(directory, id, BROKEN, f"result.json {problem}", config=run.saved_config())
    if result is not None:
        state = RESULT_ONLY if run.has_only(result) else FINISHED
        return Record(directory, id, state, result=result, config=result.config)
    aside = sorted(path.name for path in directory.glob("result.json.corrupt-*"))
    note = f"a result that could not be read was moved to {aside[-1]}" if aside else ""
    said = "; ".join(filter(None, (run.status.message, note)))
    return Record(directory, id, run.state, said, config=run.saved_config())


def row_of(record: Record) -> RunRow:
    """The row of a run: what its directory, its config and its result say."""
    about: dict[str, object] = {}
    if (config := record.config) is not None:
        about |= {"neuron": config.neuron.name, "T": config.T if config.spiking else None, "k": neuron_k(config)}
        about |= {"scale": config.scale, "source": config.rows_from, "seed": config.seed}
    if (result := record.result) is not None:
        about |= {"metric": result.score_name, "score": result.score, "seconds": result.seconds}
        about |= {"firing": result.firing_rate.mean, "energy": result.energy_mj.fp32, "ann": result.energy_ann_mj.fp32}
        about |= {"scale": result.scale, "source": result.source.name, "seed": result.seed}
        about |= {"finished_at": result.finished_at}
    return RunRow(
        name=record.name,
        id=record.id,
        directory=f"{record.directory.parent.name}/{record.directory.name}",
        state=record.state,
        problem=record.problem,
        progress="" if result else progress(record),
        task=_task(record),
        system=_system(record),
        **about,  # type: ignore[arg-type]
    )


def _task(record: Record) -> str:
    if record.result is not None:
        return record.result.task
    return record.config.task.name if record.config else record.directory.parent.name.replace("-", "/", 1)


def _system(record: Record) -> str:
    """What people call it; without a config, what its directory is called."""
    if record.result is not None:
        return record.result.system
    return title(record.config) if record.config else record.directory.name.rpartition("-")[0]


def progress(record: Record) -> str:
    """How far a run without a result has come: the last step it logged, and of how many where the config says it."""
    try:
        with open(record.directory / "metrics.csv", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            whole_lines = file.read().split(b"\n")[:-1]  # the last one may be half written
    except OSError:
        return ""
    steps = [int(first) for line in whole_lines[-1:] if (first := line.partition(b",")[0]).isdigit()]
    planned = record.config.stage.steps if record.config else None
    return f"step {steps[0]}{f' of {planned}' if planned else ''}" if steps else ""
