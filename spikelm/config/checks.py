"""The composed config as the typed tree, checked: every mistake is one line that names the key and what is valid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spikelm.catalog.checkpoint_files import (
    MORE_SIZES,
    pinned,
    read_kind,
    read_options,
    read_sizes,
    refuse_other_size,
    size_names,
)
from spikelm.catalog.kinds import KINDS, LM, UNLABELLED
from spikelm.config.check_backbone import check_backbone
from spikelm.config.check_specs import check_neuron, check_operator, check_quantizer
from spikelm.config.paths import default_runs_dir
from spikelm.config.resolvers import register_resolvers
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.convert import check_convert
from spikelm.config.settings.distill import check_distill
from spikelm.config.settings.fields import check_fields
from spikelm.config.settings.schema import Composed, Config, PreviousStudent, structured
from spikelm.config.settings.source import check_source, make_paths_absolute
from spikelm.config.settings.specs import AttentionSpec, NeuronSpec, NormSpec, QuantizerSpec
from spikelm.config.settings.stages import StageConfig, check_stage
from spikelm.config.settings.task import check_task
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError

AnySpec = TypeVar("AnySpec", NeuronSpec, QuantizerSpec, AttentionSpec, NormSpec)
AnySettings = TypeVar("AnySettings", StageConfig, VariantConfig)

#: mappings whose keys are not the schema's
OPEN = (
    "neuron",
    "weights",
    "attention",
    "norm",
    "previous",
    "backbone.options",
    "task.splits",
    "task.official_rows",
    "task.file_columns",
)
NAME = re.compile(r"\w[\w.+=-]*(/\w[\w.+=-]*)*", re.ASCII)
WITH_OPERATORS = ("bert", "roberta")  # kinds of backbones whose softmax and LayerNorms can be replaced
LONGEST_NAME = 100  # letters: a name becomes part of a path


def typed(cfg: DictConfig) -> Config:
    """The composed config as the typed tree, checked; keys added with `+` are refused, deleted ones have a default."""
    schema = structured(default_runs_dir())
    _refuse_unknown(cfg, schema, "")
    try:
        merged: Any = OmegaConf.merge(schema, cfg)
    except OmegaConfBaseException as error:
        raise ConfigError(_schema_message(error)) from error
    return resolved(merged)


def resolved(cfg: DictConfig) -> Config:
    """The typed tree, checked, of a config that has the schema's keys and no others; it is resolved in place."""
    register_resolvers()
    try:
        _read_weights(cfg.backbone)
        OmegaConf.resolve(cfg)
        composed = OmegaConf.to_object(cfg)
        if not isinstance(composed, Composed):
            raise ConfigError("the config does not follow the schema")
        config = _with_specs(composed)
    except OmegaConfBaseException as error:
        raise ConfigError(_schema_message(error)) from error
    make_paths_absolute(config.source)
    check(config)
    return config


def _with_specs(composed: Composed) -> Config:
    """The typed tree: mappings become specs, and what a previous student changes becomes that student."""
    kept = {item.name: getattr(composed, item.name) for item in fields(Composed)}
    kept["neuron"] = _spec(NeuronSpec, composed.neuron, "neuron")
    kept["weights"] = _spec(QuantizerSpec, composed.weights, "weights")
    kept["attention"] = _spec(AttentionSpec, composed.attention, "attention")
    kept["norm"] = _spec(NormSpec, composed.norm, "norm")
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
        variant=config.variant if variant is None else _merged(VariantConfig(), variant, "previous.variant"),
        finetune=_merged(config.finetune, finetune, "previous.finetune"),
        attention=_spec(AttentionSpec, changes.get("attention", config.attention.to_mapping()), "previous.attention"),
        norm=_spec(NormSpec, changes.get("norm", config.norm.to_mapping()), "previous.norm"),
    )


def _merged(settings: AnySettings, changes: Any, where: str) -> AnySettings:
    try:
        merged: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(settings), changes))
    except OmegaConfBaseException as error:
        raise ConfigError(f"{where} is not valid; {_schema_message(error)}") from error
    return merged


def _read_weights(backbone: Any) -> None:
    """Kind and sizes that a config leaves open come from the checkpoint; those it states must be the checkpoint's.

    A pinned name on the hub whose sizes are all stated is looked at when it is loaded: a plan needs no network.
    """
    if not backbone.path:
        if OmegaConf.is_missing(backbone, "layers"):
            raise ConfigError("backbone.path is not given", "backbone=hf backbone.path=FOLDER_OR_HUB_NAME")
        return
    if backbone.kind == "auto":
        backbone.kind = read_kind(backbone.path)
    kind = KINDS.get(backbone.kind)
    if kind is None or not kind.weights:  # refused by check()
        return
    names = size_names(backbone.kind)
    stated = not any(OmegaConf.is_missing(backbone, key) for key in names)
    if pinned(backbone.path) and stated and all(key in backbone.options for key in MORE_SIZES.get(backbone.kind, ())):
        return
    for key, value in read_sizes(backbone.path, backbone.kind).items():
        if OmegaConf.is_missing(backbone, key) or key == "positions" or backbone[key] is None:
            backbone[key] = value
        else:
            refuse_other_size(key, backbone[key], value, backbone.path)
    for key, value in read_options(backbone.path, backbone.kind).items():
        if key in backbone.options:
            refuse_other_size(f"options.{key}", backbone.options[key], value, backbone.path)
        else:
            OmegaConf.update(backbone, f"options.{key}", value, force_add=True)


def _refuse_unknown(cfg: Any, schema: Any, prefix: str) -> None:
    """Hydra lets `+kk=3` into a structured config; the schema's own keys are all there is."""
    for key in cfg:
        if key not in schema.keys():  # noqa: SIM118 (`in` itself says no to a value still missing)
            raise unknown_key(f"{prefix}{key}")
        child = cfg._get_node(key)
        if isinstance(child, DictConfig) and f"{prefix}{key}" not in OPEN:
            _refuse_unknown(child, schema._get_node(key), f"{prefix}{key}.")


def unknown_key(key: str) -> ConfigError:
    """What is said of a key that the schema does not have."""
    meant = "" if key.startswith("hydra") else nearest(key, all_keys())
    return ConfigError(f"unknown key {key}{meant}", "spikelm-run --cfg job shows every setting")


def _schema_message(error: OmegaConfBaseException) -> str:
    key = str(getattr(error, "full_key", None) or getattr(error, "key", None) or "")
    first = str(error).splitlines()[0]
    if "not in" in first and key:
        return unknown_key(key).what
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
    """Rules of single fields, then what goes together; raises a ConfigError that names the key and what is valid."""
    _check_names(config)
    check_fields(config)
    _check_backbone(config)
    check_stage("pretrain", config.pretrain, config)
    if config.task.kind not in UNLABELLED:
        check_stage("finetune", config.finetune, config)
    converts = config.convert.mode != "none" and config.task.kind not in UNLABELLED
    if converts or (config.distills and config.distill.from_teacher):
        check_stage("teacher", config.teacher, config)
    if config.task.kind == "general" or (config.converted and config.distill.start.weights == "general"):
        check_stage("general", config.general, config)
    check_distill(config)
    check_task(config.task, config.backbone.positions, config.stage.max_length)
    if config.task.kind in ("seq2seq", LM) and config.select == "released":
        raise ConfigError(f"select=released: no code was released for {config.task.name}", "select=last or best_dev")
    if config.task.kind == LM:
        _check_language_model(config)
        _check_untrained(config, "lm")
    elif config.task.kind == "seq2seq" and config.kind.seq2seq:
        _check_untrained(config, "sequence")
    elif config.task.generate.most_per_token:
        raise ConfigError(
            f"task.generate.most_per_token is for BART, mBART and Marian, not for {config.kind.title}",
            "task.generate.most_per_token=0",
        )
    check_source(config.source)
    if config.source.tune and config.task.kind == LM:
        raise ConfigError(
            f"source.tune holds training rows back, and task={config.task.name} has none", "source.tune=false"
        )
    check_neuron(config.neuron, "neuron")
    check_quantizer(config.weights, "weights")
    check_operator(config.attention, "attention")
    check_operator(config.norm, "norm")
    if config.previous:
        check_operator(config.previous.attention, "previous.attention")
        check_operator(config.previous.norm, "previous.norm")
        check_neuron(config.previous.neuron, "previous.neuron")
        check_quantizer(config.previous.weights, "previous.weights")
    _check_variant(config)
    _check_operators(config)
    _check_previous(config)
    check_convert(config)


def _check_names(config: Config) -> None:
    """Names are plain words, classes are of trusted packages; all of it is only looked at, nothing is imported."""
    names: dict[str, Any] = {
        "task.name": config.task.name,
        "scale": config.scale,
        "backbone.name": config.backbone.name,
        "neuron.name": config.neuron.name,
        "weights.name": config.weights.name,
        "attention.name": config.attention.name,
        "norm.name": config.norm.name,
        **({"system.name": config.system.name} if config.system.name else {}),
    }
    for key, name in names.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            raise ConfigError(f"{key}={name!r} is no name: letters, digits and _ . + = -, with / between parts")
    title = config.system.title
    if not title.isprintable() or set("/\\") & set(title) or len(title) > LONGEST_NAME:
        raise ConfigError(f"system.title={title!r} is no title: printable, without / and \\")


def _check_backbone(config: Config) -> None:
    backbone = config.backbone
    if backbone.kind not in KINDS:
        raise ConfigError(f"backbone.kind={backbone.kind} is not valid{nearest(backbone.kind, KINDS)}")
    if backbone.hidden % backbone.heads:
        raise ConfigError(f"backbone.hidden={backbone.hidden} is not a multiple of backbone.heads={backbone.heads}")
    if config.task.kind == "seq2seq" and backbone.kind == "bert":
        raise ConfigError(
            f"{config.task.name} needs an encoder-decoder; backbone={backbone.name} is a BERT", "backbone=bart_mini"
        )
    check_backbone(config)
    if config.task.kind == "pretrain" and not config.pretrains:
        raise ConfigError(
            f"task=pretrain starts from scratch; backbone.path={backbone.path} is for fine-tuning",
            "backbone.path=null pretrains it here",
        )
    kept = backbone.keep_layers
    if kept is not None and kept > backbone.layers:
        raise ConfigError(f"backbone.keep_layers={kept} is not valid; the backbone has {backbone.layers} layers")


def _check_language_model(config: Config) -> None:
    """What a decoder is trained for, chosen by and measured on."""
    backbone, task = config.backbone, config.task
    if config.select == "best_dev" and task.splits.get("validation") != "":
        raise ConfigError(
            f"select=best_dev would choose by a test text, as {task.name} has no validation split of its own first",
            'select=last, or task.splits={validation: ""}',
        )
    if backbone.keep_layers is not None:
        raise ConfigError("backbone.keep_layers is for encoders", "backbone.keep_layers=null backbone.layers=N")
    if config.measure.length > backbone.positions:
        raise ConfigError(
            f"measure.length={config.measure.length} is longer than backbone.positions={backbone.positions}",
            f"measure.length={backbone.positions}",
        )


def _check_untrained(config: Config, distill: str) -> None:
    """Where fine-tuning has no steps: weights are measured as they are, or converted; `distill` trains a student."""
    if config.finetune.steps != 0 or config.only_converts:
        return
    if config.converted:
        raise ConfigError(
            f"neuron={config.neuron.name} with finetune.steps=0 is a model that nothing is done for",
            f"convert=only converts the plain model, finetune.steps=200 distill={distill} trains a student of it",
        )
    if not config.backbone.path:
        raise ConfigError("finetune.steps=0 would measure random weights", "backbone.path=FOLDER")


def _check_variant(config: Config) -> None:
    """Whether the backbone and the neuron can have the variant."""
    variant, backbone = config.variant, config.backbone
    altered = [key for key, value in vars(variant).items() if value != getattr(VariantConfig(), key)]
    if altered and backbone.kind != "bert":
        raise ConfigError(f"variant.{altered[0]} is for a BERT; backbone={backbone.name} is a {backbone.kind}")
    if altered and not config.converted:
        raise ConfigError(
            f"variant.{altered[0]} changes a low-bit or spiking model; this one is plain", "choose a neuron or weights"
        )
    if variant.attention != "real" and not config.spiking:
        raise ConfigError(f"variant.attention={variant.attention} rounds the query: it needs a neuron", "neuron=sign")


def _check_operators(config: Config) -> None:
    """Whether the backbone and the variant can have the operators."""
    backbone = config.backbone
    for group, spec in config.operators.items():
        if backbone.kind not in WITH_OPERATORS:
            default = type(spec)().name
            raise ConfigError(
                f"{group}={spec.name} is for {' and '.join(WITH_OPERATORS)}; backbone={backbone.name} is a "
                f"{backbone.kind}",
                f"{group}={default}",
            )
    if config.attention and config.variant.attention == "boolean":
        raise ConfigError(
            f"attention={config.attention.name} takes the place of a softmax, which variant.attention=boolean has not",
            "attention=softmax, or variant.attention=quantized",
        )
    if config.norm and config.trainer.activation_checkpointing:
        raise ConfigError(
            f"norm={config.norm.name} keeps statistics of every forward, and trainer.activation_checkpointing=true "
            "computes each one twice",
            "trainer.activation_checkpointing=false",
        )


def _check_previous(config: Config) -> None:
    """A student that another one starts from or imitates."""
    chained = "previous" in (config.distill.start.weights, config.distill.teacher.model)
    if chained and (config.task.kind in ("seq2seq", LM) or not config.previous):
        raise ConfigError(
            "distill.start.weights=previous and distill.teacher.model=previous need a student before this one, "
            "on a task with labels",
            "system=bit_multi",
        )
