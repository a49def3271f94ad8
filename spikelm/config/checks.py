"""Checks of a composed config: types by the schema, then values and what goes together; one clear line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spikelm.catalog.kinds import KINDS
from spikelm.config.check_backbone import check_backbone
from spikelm.config.check_pairs import check_pairs
from spikelm.config.check_safety import check_finite, check_safety
from spikelm.config.check_specs import check_neuron, check_quantizer
from spikelm.config.check_stages import check_altered, check_distill, check_stage
from spikelm.config.check_values import check_values, nearest
from spikelm.config.resolvers import register_resolvers
from spikelm.config.schema import (
    Composed,
    Config,
    PreviousStudent,
    SourceConfig,
    StageConfig,
    VariantConfig,
    default_runs_dir,
    structured,
)
from spikelm.config.siblings import take_sibling
from spikelm.config.specs import NeuronSpec, QuantizerSpec
from spikelm.errors import ConfigError

AnySpec = TypeVar("AnySpec", NeuronSpec, QuantizerSpec)
AnySettings = TypeVar("AnySettings", StageConfig, VariantConfig)

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
        composed = OmegaConf.to_object(merged)
        if not isinstance(composed, Composed):
            raise ConfigError("the config does not follow the schema")
        config = _with_specs(composed)
    except OmegaConfBaseException as error:
        raise ConfigError(_schema_message(error)) from error
    for key in PATHS:
        if value := getattr(config.source, key):
            setattr(config.source, key, str(Path(value).expanduser().absolute()))
    check(config)
    return config


def _with_specs(composed: Composed) -> Config:
    """The typed tree: mappings become specs, and what a previous student changes becomes that student."""
    kept = {item.name: getattr(composed, item.name) for item in fields(Composed)}
    kept["neuron"] = _spec(NeuronSpec, composed.neuron, "neuron")
    kept["weights"] = _spec(QuantizerSpec, composed.weights, "weights")
    config = Config(**{**kept, "previous": None})
    if changes := composed.previous:
        config.previous = _previous(config, changes)
    return config


def _spec(kind: type[AnySpec], node: Any, where: str) -> AnySpec:
    if not isinstance(node, Mapping):
        raise ConfigError(f"{where}={node} is not valid; it is a mapping, as in conf/{where.rpartition('.')[2]}/")
    return kind.from_mapping({str(key): value for key, value in node.items()})


def _previous(config: Config, changes: Mapping[str, Any]) -> PreviousStudent:
    """The student before this one: what is not said of it is as in this one, of its variant as in no variant."""
    parts = [item.name for item in fields(PreviousStudent)]
    if unknown := sorted(set(changes) - set(parts)):
        raise ConfigError(f"unknown key previous.{unknown[0]}; valid: {', '.join(parts)}")
    variant, finetune = changes.get("variant"), changes.get("finetune", {})
    return PreviousStudent(
        neuron=_spec(NeuronSpec, changes.get("neuron", config.neuron.to_mapping()), "previous.neuron"),
        weights=_spec(QuantizerSpec, changes.get("weights", config.weights.to_mapping()), "previous.weights"),
        variant=config.variant if variant is None else _merged(VariantConfig(), variant),
        finetune=_merged(config.finetune, finetune),
    )


def _merged(settings: AnySettings, changes: Any) -> AnySettings:
    merged: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(settings), changes))
    return merged


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

    return list(walk(OmegaConf.structured(Composed), ""))


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
    check_neuron(config.neuron, "neuron")
    check_quantizer(config.weights, "weights")
    if config.previous:
        check_neuron(config.previous.neuron, "previous.neuron")
        check_quantizer(config.previous.weights, "previous.weights")
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
