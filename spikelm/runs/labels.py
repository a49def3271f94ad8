"""Where a run belongs in the paper: the file of its system, the tables it is in, and what a tracker groups it by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from spikelm.config.plugins import config_files
from spikelm.config.schema import Config, config_dir

MEASURED = ("energy", "firing")  # columns that a table takes from pretrained runs


class Labels(NamedTuple):
    """Group (table and system), kind of job (the task) and tags of a tracked run."""

    group: str
    job_type: str
    tags: list[str]


def labels(config: Config) -> Labels:
    """By the first table that it is in and its system; a run outside the tables by what it is made of."""
    task, system = config.task.name, system_file(config)
    tables = [f"table{number}" for number in tables_of(system, task)]
    name = system or config.system or f"{config.neuron['name']} T={config.time_steps}"
    tags = [config.scale, config.source.name, task, str(config.neuron["name"]), *tables]
    return Labels(config.tracker.group or " ".join([*tables[:1], name]), task, tags)


def system_file(config: Config) -> str:
    """The name of a system's file for a config; systems of one name are told apart by T, k and neuron."""
    named = {stem: raw for stem, raw in systems().items() if raw.get("system") == config.system}
    if not config.system or not named:
        return ""

    def fits(raw: Mapping[str, Any]) -> int:
        neurons = [entry.get("override /neuron") for entry in raw.get("defaults", []) if isinstance(entry, dict)]
        same = [raw.get(key) == getattr(config, key) for key in ("T", "k") if key in raw]
        return sum(same) - sum(not agrees for agrees in same) + (config.neuron["name"] in neurons)

    return max(named, key=lambda stem: fits(named[stem]))


@lru_cache(maxsize=1)
def systems() -> dict[str, dict[str, Any]]:
    """conf/system as it is written."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in config_files("system")}


@lru_cache(maxsize=1)
def _tables() -> dict[int, dict[str, Any]]:
    files = (config_dir() / "table").glob("table*.yaml")
    return {int(path.stem.removeprefix("table")): yaml.safe_load(path.read_text()) for path in files}


def tables_of(system: str, task: str) -> list[int]:
    """The tables with a row of this system and a column that a run on this task fills."""
    found = []
    for number, raw in sorted(_tables().items()):
        rows = [row for row in raw["rows"] if system and row.get("system") == system]
        if any(_fills(raw, row, task) for row in rows):
            found.append(number)
    return found


def _fills(table: Mapping[str, Any], row: Mapping[str, Any], task: str) -> bool:
    columns, defined = table["columns"], table.get("define", {})
    if task in row.get("tasks", ()) or task in [column.get("task") for column in defined.values()]:
        return True
    if task == "pretrain":
        return any(column.startswith(MEASURED) for column in columns)
    glue = {f"glue/{column.removesuffix('_mm').removesuffix('_m')}" for column in columns if column not in defined}
    # An average without columns of its own is that of GLUE.
    return task in glue or ("avg" in columns and not defined and task.startswith("glue/"))
