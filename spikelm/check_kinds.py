"""Checks of backbones that are not a BERT or BART with neurons: their tasks, their neuron, their own sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikelm.errors import ConfigError
from spikelm.schema import Config

GLUE = ("classification", "regression")


@dataclass(frozen=True)
class Kind:
    """What a kind of backbone can do, and what its `backbone.own` holds: a key, its type and least value."""

    name: str
    tasks: tuple[str, ...]
    own: dict[str, tuple[type, float]]
    path: bool = False  # whether it can start from given weights
    pretrained: bool = False  # whether a task with pairs of texts starts from a pretrained run, without such weights


KINDS = {
    "elmo": Kind(
        "ELMo",
        ("pretrain", *GLUE),
        {
            "characters": (int, 3),
            "filters": (list, 1),
            "character_size": (int, 1),
            "highways": (int, 0),
            "task_hidden": (int, 1),
            "task_mlp": (int, 1),
            "task_dropout": (float, 0),
        },
    ),
    "ptgen": Kind("PTGEN", ("seq2seq",), {"embedding": (int, 1), "coverage": (float, 0), "coverage_from": (float, 0)}),
    "bertsum": Kind(
        "BERTSUMABS",
        ("seq2seq",),
        {
            "decoder_heads": (int, 1),
            "decoder_intermediate": (int, 1),
            "decoder_dropout": (float, 0),
            "label_smoothing": (float, 0),
            "no_repeat_ngram": (int, 0),
        },
        path=True,
        pretrained=True,
    ),
    "gpt2": Kind(
        "GPT-2",
        ("pretrain", "seq2seq"),
        {"top_k": (int, 1), "new_tokens": (int, 1), "sentences": (int, 1)},
        path=True,
        pretrained=True,
    ),
}
TASKS = {"pretrain": "pretrain", "seq2seq": "sum/*", **dict.fromkeys(GLUE, "glue/*")}


def check_kind(config: Config) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    size = config.backbone
    kind = KINDS.get(size.kind)
    if kind is None:
        if size.own:
            raise ConfigError(f"backbone.own={size.own} is not valid; a {size.kind} has no sizes of its own")
        return
    if config.spiking:
        raise ConfigError(
            f"neuron={config.neuron['name']} is not valid; {kind.name} (backbone.kind={size.kind}) is a plain model",
            "neuron=ann",
        )
    fits = config.task.kind in kind.tasks and not config.task.name.startswith("mt/")
    if not fits:
        valid = ", ".join(dict.fromkeys(TASKS[task] for task in kind.tasks))
        raise ConfigError(
            f"task={config.task.name} is not valid for {kind.name} (backbone.kind={size.kind}); valid: {valid}",
            f"task={valid.split(', ')[-1].replace('*', 'xsum' if 'sum' in valid else 'sst2')}",
        )
    if size.path and not kind.path:
        raise ConfigError(f"backbone.path={size.path} is not valid; {kind.name} is trained on the project's own text")
    for key, value in size.own.items():
        _check_own(key, value, kind)
    if size.kind == "gpt2" and config.task.kind == "seq2seq":
        _check_prompt(config)


def _check_prompt(config: Config) -> None:
    """A prompt and its answer fit, and nothing is trained between them."""
    if config.finetune.steps != 0:
        raise ConfigError(
            f"finetune.steps={config.finetune.steps} is not valid; GPT-2 writes summaries without training",
            "finetune.steps=0 finetune.epochs=null",
        )
    room = config.backbone.positions - config.backbone.own["new_tokens"]
    if config.task.source_length > room:
        raise ConfigError(
            f"task.source_length={config.task.source_length} leaves no room for backbone.own.new_tokens="
            f"{config.backbone.own['new_tokens']} in backbone.positions={config.backbone.positions}",
            f"task.source_length={room}",
        )


def _check_own(key: str, value: Any, kind: Kind) -> None:
    if key not in kind.own:
        raise ConfigError(f"unknown key backbone.own.{key}; {kind.name} has {', '.join(kind.own)}")
    expected, least = kind.own[key]
    for number in value if expected is list and isinstance(value, list) and value else [value]:
        whole = isinstance(number, int) and not isinstance(number, bool)
        right = whole or (expected is float and isinstance(number, float))
        if not right or not least <= number < float("inf"):
            what = "a number" if expected is float else "a whole number" if expected is int else "a list of numbers"
            raise ConfigError(f"backbone.own.{key}={value} is not valid; it is {what} of at least {least:g}")
