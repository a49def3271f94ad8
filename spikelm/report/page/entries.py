"""The runs of a store as the page lists them: one small row each, broken records among them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spikelm.store.headline import headline_name
from spikelm.store.store import Run, Store

#: what a run's page is made from; when none of them changes, neither does the page
RECORDS = ("result.json", "status.json", "config.yaml", "environment.json", "metrics.csv", "traceback.txt")
BROKEN = "broken"
TAIL = 2000  # bytes of a metrics.csv that have its last step in them
#: as yaml.safe_load, in C where it was built
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Record:
    """One directory of the store, as it was read: its result, or why there is none."""

    directory: Path
    id: str | None
    state: str  # finished, running, interrupted, failed, new or broken
    problem: str
    result: dict[str, Any]  # empty where there is no valid one
    config: dict[str, Any]

    @property
    def name(self) -> str:
        """The file of its page: the id, or the directory where no record gives one."""
        return self.id or re.sub(r"[^A-Za-z0-9._=+-]+", "-", f"{self.directory.parent.name}-{self.directory.name}")


def fingerprint(directory: Path) -> list[int]:
    """Times and sizes of the records: what tells whether a page has to be made again."""
    found: list[int] = []
    for name in RECORDS:
        try:
            about = (directory / name).stat()
            found += [about.st_mtime_ns, about.st_size]
        except OSError:
            found += [0, 0]
    return found


def directories(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Every directory of a run, with its id where its records give one."""
    yield from Store(root).directories()


def read_record(root: Path, directory: Path, id: str | None) -> Record:
    """One run as far as it can be read; whatever its files hold, this does not raise."""
    if id is None:
        what = "no record gives the id of this run: status.json and result.json are missing or not readable"
        return Record(directory, None, BROKEN, what, {}, _config(directory))
    run = Run(root, directory, id)
    try:
        result, problem = run.examine()
    except OSError as error:
        result, problem = None, f"cannot be read: {error.strerror}"
    if result is not None and (missing := _unreadable(result)):
        result, problem = None, f"lacks {missing}"
    if problem:
        return Record(directory, id, BROKEN, f"result.json {problem}", {}, _config(directory))
    if result is not None:
        return Record(directory, id, "finished", "", result, result["config"])
    aside = sorted(path.name for path in directory.glob("result.json.corrupt-*"))
    said = str(run.status.get("message") or "")
    note = f"a result that could not be read was moved to {aside[-1]}" if aside else ""
    return Record(directory, id, run.state, "; ".join(filter(None, (said, note))), {}, _config(directory))


def _unreadable(result: Mapping[str, Any]) -> str:
    """The first section of a result that the page builds on and that is not what the schema says."""
    for name in ("config", "metrics", "source"):
        if not isinstance(result.get(name), dict):
            return name
    if not all(isinstance(value, (int, float, type(None))) for value in result["metrics"].values()):
        return "numbers in metrics"
    return ""


def _config(directory: Path) -> dict[str, Any]:
    try:
        found = yaml.load((directory / "config.yaml").read_text(encoding="utf-8", errors="replace"), LOADER)
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def row_of(record: Record) -> dict[str, Any]:
    """What the list of runs shows and filters by; None where it is not known."""
    config, result = record.config, record.result
    task = (
        result.get("task") or section(config, "task").get("name") or record.directory.parent.name.replace("-", "/", 1)
    )
    metrics = section(result, "metrics")
    metric = headline_name(str(task), metrics)
    neuron = section(config, "neuron")
    return {
        "name": record.name,
        "id": record.id,
        "directory": f"{record.directory.parent.name}/{record.directory.name}",
        "task": str(task),
        "system": _system(record),
        "neuron": text(neuron.get("name")),
        "T": number(config.get("T")) if neuron.get("target") else None,
        "k": number(section(neuron, "arguments").get("k")),
        "scale": text(result.get("scale") or config.get("scale")),
        "source": text(section(result, "source").get("name") or section(config, "source").get("name")),
        "seed": number(result.get("seed", config.get("seed"))),
        "state": record.state,
        "problem": record.problem,
        "metric": metric,
        "score": number(metrics.get(metric)),
        "firing": number(section(result, "firing_rate").get("mean")),
        "energy": number(section(result, "energy_mj").get("fp32")),
        "ann": number(section(result, "energy_ann_mj").get("fp32")),
        "seconds": number(result.get("seconds")),
        "finished_at": text(result.get("finished_at")),
        "progress": "" if result else progress(record),
    }


def progress(record: Record) -> str:
    """How far a run without a result has come: the last step it logged, and of how many where the config says it."""
    try:
        with open(record.directory / "metrics.csv", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            whole_lines = file.read().split(b"\n")[:-1]  # the last one may be half written
    except OSError:
        return ""
    steps = [int(first) for line in whole_lines[-1:] if (first := line.partition(b",")[0]).isdigit()]
    kind = section(record.config, "task").get("kind")
    stage = section(record.config, kind if kind in ("pretrain", "general") else "finetune")
    planned = number(stage.get("steps"))
    return f"step {steps[0]}{f' of {planned}' if planned else ''}" if steps else ""


def _system(record: Record) -> str:
    """The system's name; a run without one has a label, whose end (scale, source, seed) has columns of its own."""
    config, result = record.config, record.result
    name = str(result.get("system") or config.get("system") or record.directory.name.rpartition("-")[0])
    end = f"-{config.get('scale')}-{section(config, 'source').get('name')}-s{config.get('seed')}"
    return name.removesuffix(end)


def section(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A part of a record, empty where it is absent or something else."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def number(value: Any) -> float | int | None:
    """`value` if it is a finite number."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None


def text(value: Any) -> str:
    """`value` as text, empty for none."""
    return "" if value is None else str(value)
