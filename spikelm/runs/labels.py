"""What a run is called: its title for people, its folder's name, its tables, and what a tracker groups it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from spikelm.catalog.checkpoint_files import on_hub
from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError

MEASURED = ("energy", "firing")  # columns that a table takes from pretrained runs


class Labels(NamedTuple):
    """Group (table and system), kind of job (the task) and tags of a tracked run."""

    group: str
    job_type: str
    tags: list[str]


def label(config: Config) -> str:
    """The readable part of a run's directory: neuron, T, k, backbone, scale, source, seed."""
    parts = [config.backbone.kind] if config.kind.neuron == "spiking" else []
    parts.append(config.neuron.name)
    if config.spiking:
        parts.append(f"T{config.time_steps}")
    if "k" in config.neuron.arguments:
        parts.append(f"k{config.neuron.arguments['k']:g}")
    if config.quantized:
        parts.append(f"w{config.weights.name}")
    return "-".join([*parts, config.backbone.name, config.scale, config.source.name, f"s{config.seed}"])


def title(config: Config) -> str:
    """What people call the run: its system, with whatever was changed of it; else what it is made of."""
    if not config.system.name:
        return label(config)
    changes = departures(config)
    return config.system.title + (f" ({', '.join(changes)})" if changes else "")


def departures(config: Config) -> list[str]:
    """What a config changes of the system it names, as overrides: `system=spikelm_t4 T=2` departs by T=2."""
    try:
        own = _own(config.system.name, config.task.name, config.scale, config.recipe)
    except ConfigError:  # of a folder named by --config-dir, or of another version: nothing to compare with
        return []
    changes = [] if config.time_steps == own.time_steps else [f"T={config.T}"]
    changes += _backbone_changes(config.backbone, own.backbone)
    groups = ["neuron", "weights", *(["distill"] if config.distills or own.distills else [])]
    for group in groups:
        ours, theirs = _settings(config, group), _settings(own, group)
        if ours.get("name") != theirs.get("name"):
            changes.append(f"{group}={ours.get('name')}")
        else:
            changes += [f"{group}.{key}={value}" for key, value in ours.items() if theirs.get(key) != value]
    ours, theirs = _flat(asdict(config.variant)), _flat(asdict(own.variant))
    changes += [f"variant.{key}={value}" for key, value in ours.items() if theirs[key] != value]
    return changes


def _backbone_changes(ours: BackboneConfig, theirs: BackboneConfig) -> list[str]:
    """Another backbone, or another depth or kind of the same; a width alone is a point of the same system's curve.

    Whether weights are given or pretrained here is said as well; where a copy of them lies is not.
    """
    if ours.name != theirs.name:
        return [f"backbone={ours.name}"]
    keys = ("kind", "layers", "keep_layers", "options")
    changes = [f"backbone.{key}={getattr(ours, key)}" for key in keys if getattr(ours, key) != getattr(theirs, key)]
    if bool(ours.path) == bool(theirs.path):
        return changes
    start = "null" if not ours.path else ours.path if on_hub(ours.path) else "FOLDER"
    return [f"backbone.path={start}", *changes]


def _settings(config: Config, group: str) -> dict[str, Any]:
    node = getattr(config, group)
    return _flat(node.to_mapping() if isinstance(node, ClassSpec) else asdict(node))


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return leaves


@lru_cache(maxsize=256)
def _own(system: str, task: str, scale: str, recipe: str) -> Config:
    """A system as its file has it, on embedded text: where text comes from changes no system."""
    words = [f"system={system}", f"task={task}", f"scale={scale}", "source=embedded"]
    return load_config([*words, *([f"recipe={recipe}"] if recipe else [])])


def labels(config: Config) -> Labels:
    """By the first table that it is in and its system; a run outside the tables by what it is made of."""
    task, name = config.task.name, config.system.name
    unchanged = bool(name) and not departures(config)
    tables = [f"table{number}" for number in tables_of(name, task)] if unchanged else []
    called = name if unchanged else title(config) if name else f"{config.neuron.name} T={config.time_steps}"
    tags = [config.scale, config.source.name, task, config.neuron.name, *tables]
    return Labels(config.tracker.group or " ".join([*tables[:1], called]), task, tags)


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
