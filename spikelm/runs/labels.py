"""What a run is called: its title for people, its folder's name, its tables, and what a tracker groups it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from spikelm.catalog.checkpoint_files import on_hub
from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.config.plugins import option_file, option_names
from spikelm.config.settings.backbone import BackboneConfig, VariantConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError

MADE_OF = ("neuron", "weights", "attention", "norm")  # groups that make a model what it is
MEASURED = ("energy", "firing")  # columns that a table takes from pretrained runs


class Labels(NamedTuple):
    """Group (table and system), kind of job (the task) and tags of a tracked run."""

    group: str
    job_type: str
    tags: list[str]


def label(config: Config) -> str:
    """The readable part of a run's directory: neuron, T, k, backbone, scale, where its rows come from, seed."""
    parts = [config.backbone.kind] if config.kind.neuron == "spiking" else []
    parts.append(config.neuron.name)
    if config.spiking:
        parts.append(f"T{config.time_steps}")
    if (k := neuron_k(config)) is not None:
        parts.append(f"k{k:g}")
    if config.quantized:
        parts.append(f"w{config.weights.name}")
    parts += [spec.name for spec in config.operators.values()]
    if config.convert.mode != "none":
        parts.append({"only": "converted", "first": "convertfirst"}[config.convert.mode])
    return "-".join([*parts, config.backbone.name, config.scale, config.rows_from, f"s{config.seed}"])


def title(config: Config) -> str:
    """What people call the run, in every list, table, page and tracker.

    Its system, with whatever was changed of it; a system with another neuron, other weights or operators is no longer
    that system, and is called by what it is made of, as is a run without one. A conversion, or a start from one, is
    said at the end.
    """
    return _name(config) + _conversion(config)


def _conversion(config: Config) -> str:
    """What is said of a conversion: converted, converted first, converted with rotation."""
    words = {"none": "", "only": ", converted", "first": ", converted first"}[config.convert.mode]
    return f"{words} with rotation" if words and config.convert.rotation != "none" else words


def _name(config: Config) -> str:
    if not config.system.name:
        return made_of(config)
    own = _own_of(config)
    if own is None:  # of a folder that is not here: nothing tells what was changed
        return f"{config.system.title} ({made_of(config)})"
    if any(getattr(config, group).name != getattr(own, group).name for group in MADE_OF):
        return made_of(config)
    changes = _changes(config, own)
    named = own if own.backbone.kind == config.backbone.kind else config
    return named.system.title + (f" ({', '.join(changes)})" if changes else "")


def with_steps(name: str, config: Config) -> str:
    """A title with T, where it does not say it and it means something: SpikeLM is one system at T=1 and T=4."""
    if not config.fires or "T=" in name:
        return name
    said = _conversion(config)
    return f"{name.removesuffix(said)} T={config.time_steps}{said}"


def tracked_name(config: Config) -> str:
    """What a tracker calls the run."""
    parts = [config.task.name, with_steps(title(config), config), config.scale, config.rows_from, f"s{config.seed}"]
    return " ".join(parts)


def made_of(config: Config) -> str:
    """Its architecture, and what was put into it: BERT with psn T=4, BART with bispike T=1 k=2 weights=binary."""
    if not config.converted:
        return config.architecture
    parts = [neuron_text(config)] if config.spiking else []
    parts += [f"weights={config.weights.name}"] if config.quantized else []
    parts += [f"{group}={spec.name}" for group, spec in config.operators.items()]
    parts += _differing("variant", asdict(config.variant), asdict(VariantConfig()))
    parts += [f"distill={config.distill.name}"] if config.distills else []
    return f"{config.architecture} with {' '.join(parts)}"


def neuron_text(config: Config) -> str:
    """The neuron with its T and k."""
    k = neuron_k(config)
    steps = [f"T={config.time_steps}"] if config.fires else []
    return " ".join([config.neuron.name, *steps, *([] if k is None else [f"k={k:g}"])])


def neuron_k(config: Config) -> float | None:
    """k of the neuron's amplitude (alpha is k times the mean of absolute values), where it has one and reads it."""
    return float(config.neuron.arguments["k"]) if config.neuron.reads_k else None


def departures(config: Config) -> list[str]:
    """What a config changes of the system it names, as overrides: `system=spikelm_t4 T=2` departs by T=2."""
    own = _own_of(config)
    return (
        []
        if own is None
        else [*_changes(config, own), *_differing("convert", asdict(config.convert), asdict(own.convert))]
    )


def _changes(config: Config, own: Config) -> list[str]:
    changes = [] if config.time_steps == own.time_steps else [f"T={config.T}"]
    changes += _backbone_changes(config.backbone, own.backbone)
    groups = [*MADE_OF, *(["distill"] if config.distills or own.distills else [])]
    for group in groups:
        ours, theirs = _settings(config, group), _settings(own, group)
        if ours.get("name") != theirs.get("name"):
            changes.append(f"{group}={ours.get('name')}")
        else:
            changes += _differing(group, ours, theirs)
    return [*changes, *_differing("variant", asdict(config.variant), asdict(own.variant))]


def _differing(group: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The values that are not as theirs, as overrides."""
    ours, theirs = _flat(ours), _flat(theirs)
    return [f"{group}.{key}={value}" for key, value in ours.items() if theirs.get(key) != value]


def _backbone_changes(ours: BackboneConfig, theirs: BackboneConfig) -> list[str]:
    """Another backbone, or another depth or kind of the same; a width alone is a point of the same system's curve.

    Whether weights are given or pretrained here is said as well; where a copy of them lies is not.
    """
    if ours.name != theirs.name:
        weights = [f"backbone.path={ours.path}"] if ours.path and not ours.title and on_hub(ours.path) else []
        return [f"backbone={ours.name}", *weights]
    keys = ("kind", "layers", "keep_layers", "options")
    changes = [f"backbone.{key}={getattr(ours, key)}" for key in keys if getattr(ours, key) != getattr(theirs, key)]
    if bool(ours.path) == bool(theirs.path):
        return changes
    start = "null" if not ours.path else ours.path if on_hub(ours.path) else "FOLDER"
    return [f"backbone.path={start}", *changes]


def _settings(config: Config, group: str) -> dict[str, Any]:
    node = getattr(config, group)
    if not isinstance(node, ClassSpec):
        return asdict(node)
    unread = ("k",) if group == "neuron" and not config.neuron.reads_k else ()
    return {key: value for key, value in node.to_mapping().items() if key not in unread}


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return leaves


def _own_of(config: Config) -> Config | None:
    """The system that a config names as its file has it; None where there is no such file here.

    A task or a scale of a folder that is not here changes no system: another task of the same kind stands in for it.
    """
    system, task, scale = config.system.name, config.task.name, config.scale
    if option_file("system", system) is None:
        return None
    if option_file("task", task) is None:
        task = _task_of_kind(config.task.kind)
    return _own(system, task, scale if option_file("scale", scale) else "", config.recipe)


@lru_cache(maxsize=16)
def _task_of_kind(kind: str) -> str:
    known = (
        name
        for name in option_names("task")
        if (path := option_file("task", name)) is not None and yaml.safe_load(path.read_text()).get("kind") == kind
    )
    return next(known, "")


@lru_cache(maxsize=256)
def _own(system: str, task: str, scale: str, recipe: str) -> Config | None:
    """A system as its file has it, on embedded text: where text comes from changes no system."""
    chosen = {"system": system, "task": task, "scale": scale, "source": "embedded", "recipe": recipe}
    try:
        return load_config([f"{group}={name}" for group, name in chosen.items() if name])
    except ConfigError:  # what it names is of another version, or its weights are not here
        return None


def labels(config: Config) -> Labels:
    """By the first table that it is in and its system; a run outside the tables by what it is made of."""
    task, name = config.task.name, config.system.name
    unchanged = bool(name) and not departures(config)
    found = tables_of(name, task) if unchanged else []
    tables = [f"table{one}" if isinstance(one, int) else one for one in found]
    called = name if unchanged else title(config)
    tags = [config.scale, config.rows_from, task, config.neuron.name, *tables]
    return Labels(config.tracker.group or " ".join([*tables[:1], called]), task, tags)


@lru_cache(maxsize=1)
def _tables() -> dict[int | str, dict[str, Any]]:
    """All tables, those of the paper first and by number."""
    files = {path.stem: path for path in (config_dir() / "table").glob("*.yaml")}
    numbered = {int(name.removeprefix("table")): path for name, path in files.items() if name.startswith("table")}
    named = {name: path for name, path in files.items() if not name.startswith("table")}
    paths: dict[int | str, Path] = {**dict(sorted(numbered.items())), **dict(sorted(named.items()))}
    return {id: yaml.safe_load(path.read_text()) for id, path in paths.items()}


def tables_of(system: str, task: str) -> list[int | str]:
    """The tables with a row of this system and a column that a run on this task fills."""
    found = []
    for number, raw in _tables().items():
        rows = [row for row in raw["rows"] if system and row.get("system") == system]
        if any(_fills(raw, row, task) for row in rows):
            found.append(number)
    return found


def _fills(table: Mapping[str, Any], row: Mapping[str, Any], task: str) -> bool:
    columns, defined = table["columns"], table.get("define", {})
    if task in row.get("tasks", ()) or task in [column.get("task") for column in defined.values()]:
        return True
    if task == "pretrain":
        return any(column.startswith(MEASURED) for column in columns if column not in defined)
    glue = {f"glue/{column.removesuffix('_mm').removesuffix('_m')}" for column in columns if column not in defined}
    # An average without columns of its own is that of GLUE.
    return task in glue or ("avg" in columns and not defined and task.startswith("glue/"))
