"""Checks of a backbone: its decoder, and for each kind of our own its options and the tasks it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikelm.errors import ConfigError
from spikelm.schema import Config


@dataclass(frozen=True)
class OwnKind:
    """What a kind of our own can be asked for: `options` by name, with the values or the type they may have."""

    tasks: tuple[str, ...]
    instead: str  # what to do about another task
    options: dict[str, Any]


LABELLED = ("classification", "regression")
OWN_KINDS = {
    "spikingformer": OwnKind(
        (*LABELLED, "pretrain"),
        "task=glue/sst2, or task=pretrain",
        {"norm": ("ln", "bn"), "ffn_activation": ("none", "gelu", "relu"), "attention_threshold": float},
    ),
    "rwkv": OwnKind(
        ("pretrain",), "task=pretrain: it is a causal language model without other heads", {"max_logit_l2": float}
    ),
    "spikformer": OwnKind(
        (*LABELLED, "general"),
        "task=general_distill: it learns from a BERT and is not pretrained",
        {"num_attention_heads": int, "mask": bool, "attention_threshold": float},
    ),
}


def check_backbone(config: Config) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    size = config.backbone
    if size.decoder_layers is not None and (size.decoder_layers < 1 or size.kind not in ("bart", "mbart")):
        what = f"a {size.kind.upper()} has no decoder" if size.kind == "bert" else "it is a whole number of at least 1"
        raise ConfigError(f"backbone.decoder_layers={size.decoder_layers} is not valid; {what}")
    kind = OWN_KINDS.get(size.kind)
    if kind is None:
        if size.options:
            raise ConfigError(f"backbone.options.{next(iter(size.options))} is not known to backbone.kind={size.kind}")
        return
    if config.task.kind not in kind.tasks:
        raise ConfigError(f"backbone.kind={size.kind} has no {config.task.name}", kind.instead)
    if not config.spiking:
        raise ConfigError(
            f"backbone.kind={size.kind} has no plain form; neuron={config.neuron['name']}", "choose another neuron"
        )
    if size.path:
        raise ConfigError(
            f"backbone.path={size.path} holds the weights of a BERT, backbone.kind={size.kind} starts from scratch",
            "choose a backbone without a path, such as scale=mini",
        )
    if size.kind == "rwkv" and config.time_steps != 1:
        raise ConfigError(f"T={config.time_steps} is not valid; the time of backbone.kind=rwkv is its tokens", "T=1")
    for name, value in size.options.items():
        if name not in kind.options:
            raise ConfigError(f"unknown key backbone.options.{name}; valid: {', '.join(kind.options)}")
        _check_option(name, value, kind.options[name])
    heads = size.options.get("num_attention_heads", size.heads)
    if size.hidden % heads:
        raise ConfigError(f"backbone.options.num_attention_heads={heads} does not divide backbone.hidden={size.hidden}")
    if size.kind == "spikformer":
        _check_student(config)


def _check_student(config: Config) -> None:
    """A Spikformer starts from its general distillation, and without a mask imitates states that no cache keeps."""
    settings = config.distill
    if config.task.kind in LABELLED and settings.start != "general":
        raise ConfigError(
            f"distill.start={settings.start}: backbone.kind=spikformer is not pretrained", "distill=spikebert"
        )
    if settings.head == "teacher" or settings.attention:
        raise ConfigError(
            "backbone.kind=spikformer has neither the teacher's head nor its attention", "distill=spikebert"
        )
    if settings.cache and not config.backbone.options.get("mask", False):
        raise ConfigError(
            "distill.cache keeps no states of pads, which are imitated without a mask", "distill.cache=false"
        )


def _check_option(name: str, value: Any, rule: Any) -> None:
    if isinstance(rule, tuple):
        good, means = value in rule, ", ".join(rule)
    elif rule is bool:
        good, means = isinstance(value, bool), "true or false"
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        good = number and value > 0 and (rule is float or int(value) == value)
        means = "a number above 0" if rule is float else "a whole number of at least 1"
    if not good:
        raise ConfigError(f"backbone.options.{name}={value} is not valid; valid: {means}")
