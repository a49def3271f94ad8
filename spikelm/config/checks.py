"""Checks of a composed config: types by the schema, then values and what goes together; one clear line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spikelm.catalog.kinds import KINDS
from spikelm.config.check_backbone import check_backbone
from spikelm.config.check_pairs import check_pairs
from spikelm.config.check_safety import check_finite, check_safety
from spikelm.config.check_stages import check_altered, check_distill, check_stage
from spikelm.config.check_values import check_values, nearest
from spikelm.config.resolvers import register_resolvers
from spikelm.config.schema import Config, SourceConfig, default_runs_dir, structured
from spikelm.config.siblings import take_sibling
from spikelm.errors import ConfigError

#: mappings whose keys are not the schema's
OPEN = (
    "neuron",
    "weights",
    "previous",
    "backbone.pairs",
    "backbone.options",
    *(f"task.{key}" for key in ("splits", "official_rows", "file_columns", "generate", "paper")),
)
PATHS = ("root", "text_root", "mirror", "tokenizer")  # made absolute: a recorded config is read from anywhere
SOURCE_KEYS = {  # key of a source -> the sources that read it
    **dict.fromkeys(("root", "text_root"), ("local",)),
    **dict.fromkeys(("glue", "text", "mirror"), ("hub",)),
    "tokenizer": ("local", "hub"),
}


def typed(cfg: DictConfig) -> Config:
    """The composed config as the typed tree, checked; keys added with `+` are refused."""
    register_resolvers()
    schema = structured(default_runs_dir())
    _refuse_unknown(cfg, schema, "")
    try:
        merged = OmegaConf.merge(schema, cfg)
        if not merged.backbone.path and OmegaConf.is_missing(merged.backbone, "layers"):
            raise ConfigError("backbone.path is not given", "backbone=hf backbone.path=FOLDER_OR_HUB_NAME")
        if merged.backbone.kind == "auto":
            merged.backbone.kind = _kind(merged.backbone.path)
        take_sibling(merged)
        if merged.backbone.path:
            _fill_sizes(merged.backbone)
        OmegaConf.resolve(merged)
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(_schema_message(error)) from error
    if not isinstance(config, Config):
        raise ConfigError("the config does not follow the schema")
    for key in PATHS:
        if value := getattr(config.source, key):
            setattr(config.source, key, str(Path(value).expanduser().absolute()))
    check(config)
    return config


def _kind(path: str) -> str:
    from spikelm.catalog.checkpoint_files import read_kind

    return read_kind(path)


def _fill_sizes(backbone: Any) -> None:
    """Sizes that a config leaves open come from the checkpoint; those it states must be the checkpoint's.

    A pinned name on the hub whose sizes are all stated is looked at when it is loaded: a plan needs no network.
    """
    from spikelm.catalog.checkpoint_files import pinned, read_sizes, refuse_other_size, size_names

    kind = KINDS.get(backbone.kind)
    if kind is None or not kind.weights:  # refused by check()
        return
    names = size_names(backbone.kind)
    if pinned(backbone.path) and not any(OmegaConf.is_missing(backbone, key) for key in names):
        return
    for key, value in read_sizes(backbone.path, backbone.kind).items():
        if OmegaConf.is_missing(backbone, key) or key == "positions" or backbone[key] is None:
            backbone[key] = value
        else:
            refuse_other_size(key, backbone[key], value, backbone.path)


def _refuse_unknown(cfg: Any, schema: Any, prefix: str) -> None:
    """Hydra lets `+kk=3` into a structured config; the schema's own keys are all there is."""
    for key in cfg:
        if key not in schema.keys():  # noqa: SIM118 (`in` itself says no to a value still missing)
            raise ConfigError(f"unknown key {prefix}{key}{nearest(f'{prefix}{key}', all_keys())}")
        child = cfg._get_node(key)
        if isinstance(child, DictConfig) and f"{prefix}{key}" not in OPEN:
            _refuse_unknown(child, schema._get_node(key), f"{prefix}{key}.")


def _schema_message(error: OmegaConfBaseException) -> str:
    key = str(getattr(error, "full_key", None) or getattr(error, "key", None) or "")
    first = str(error).splitlines()[0]
    if "not in" in first and key:
        return f"unknown key {key}{nearest(key, all_keys())}"
    return f"{key}: {first}" if key else first


def all_keys() -> list[str]:
    """Every key of the schema, dotted."""

    def walk(node: Any, prefix: str) -> Iterable[str]:
        for key in node:
            yield f"{prefix}{key}"
            child = node._get_node(key)
            if isinstance(child, DictConfig) and not child._is_none() and not child._is_missing():
                yield from walk(child, f"{prefix}{key}.")

    return list(walk(OmegaConf.structured(Config), ""))


def check(config: Config) -> None:
    """Ranges and choices; raises a ConfigError that names the key, its value and what is valid."""
    check_safety(config)
    check_values(config)
    if config.backbone.hidden % config.backbone.heads:
        raise ConfigError(
            f"backbone.hidden={config.backbone.hidden} is not a multiple of backbone.heads={config.backbone.heads}"
        )
    check_backbone(config)
    if config.backbone.path and config.task.kind == "pretrain":
        raise ConfigError(
            "task=pretrain starts from scratch; backbone.path is for fine-tuning", "choose another backbone"
        )
    check_stage("pretrain", config.pretrain, config)
    if config.task.kind not in ("pretrain", "general"):
        check_stage("finetune", config.finetune, config)
        check_stage("teacher", config.teacher, config)
    check_distill(config)
    check_pairs(config.task, config.backbone.positions)
    _check_source(config.source)
    check_neuron(config.neuron)
    check_neuron(config.weights, "weights")
    for group in ("neuron", "weights"):
        check_neuron(config.previous.get(group, {}), f"previous.{group}")
    check_altered(config)
    check_finite(asdict(config))


def _check_source(source: SourceConfig) -> None:
    for key, names in SOURCE_KEYS.items():
        if getattr(source, key) and source.name not in names:
            raise ConfigError(f"source.{key} is for source={' or '.join(names)}, not source={source.name}")
    for text in source.text or []:
        if text.rows not in ("articles", "sentences"):
            raise ConfigError(f"source.text of {text.repo}: rows={text.rows} is not valid; valid: articles, sentences")
    if source.name == "local" and not source.root:
        raise ConfigError("source=local needs source.root=DIR, the folder of the files")
    for key in ("root", "text_root", "mirror"):
        if (folder := getattr(source, key)) and not Path(folder).is_dir():
            raise ConfigError(f"source.{key}={folder} is not a folder")
    if source.tokenizer and not Path(source.tokenizer).exists():
        raise ConfigError(f"source.tokenizer={source.tokenizer} does not exist; it is a vocab.txt or its folder")


def check_neuron(neuron: Mapping[str, Any], group: str = "neuron") -> None:
    """Arguments of a neuron or quantiser against the `valid` block of its own YAML: choices, a bound, or a type."""
    valid = neuron.get("valid", {})
    for key, value in neuron.items():
        if key in ("_target_", "name", "valid", "T", "bits", "spikes"):
            continue
        if key not in valid:
            raise ConfigError(f"unknown key {group}.{key}{nearest(key, valid)}")
        rule = valid[key]
        if isinstance(rule, list):
            good, means = value in rule, ", ".join(map(str, rule))
        elif rule == "bool":
            good, means = isinstance(value, bool), "true or false"
        else:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            bound = {"> 0": number and value > 0, ">= 0": number and value >= 0, "number": number}
            good, means = bool(bound[rule]), rule
        if not good:
            raise ConfigError(f"{group}.{key}={value} is not valid; valid: {means}")
