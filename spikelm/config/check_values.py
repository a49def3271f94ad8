"""Values a config may have: choices and ranges, key by key; a mistake is named with what is valid."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from spikelm.catalog.kinds import KINDS
from spikelm.config.schema import Config
from spikelm.errors import ConfigError

STAGES = ("pretrain", "general", "finetune")
CHOICES: dict[str, tuple[str | None, ...]] = {
    "task.kind": ("classification", "regression", "seq2seq", "pretrain", "general"),
    "select": ("last", "best_dev", "released"),
    "tracker.mode": ("online", "offline", "disabled"),
    **dict.fromkeys((f"{stage}.schedule" for stage in STAGES), ("linear", "constant", "cosine", "inverse_sqrt")),
    **dict.fromkeys((f"{stage}.optimizer" for stage in STAGES), (None, "adamw", "adagrad")),
    "distill.start": ("pretrained", "general", "teacher", "previous"),
    "distill.teacher": ("ann", "previous"),
    "distill.head": ("new", "teacher"),
    "distill.layers": ("all", "last", "progressive"),
    "distill.logits_loss": ("kl", "mse", "soft"),
    "distill.reduction": ("mean", "rows"),
    "variant.attention": ("real", "quantized", "boolean", "rank1"),
    "variant.activation": (None, "gelu", "relu"),
    "source.name": ("embedded", "hub", "local"),
    "trainer.accelerator": ("auto", "cpu", "gpu", "cuda", "mps"),
    **{"trainer.strategy": ("ddp", "fsdp"), "trainer.compile": ("off", "neurons", "model")},
    "trainer.precision": ("32-true", "bf16-mixed", "16-mixed"),
    "backbone.activation": ("gelu", "relu"),
    "backbone.transform_activation": (None, "gelu", "relu"),
    "recipe": ("", "paper", "as_released"),
    "backbone.kind": tuple(KINDS),
}
AT_LEAST_ONE = (
    *("T", "backbone.layers", "backbone.hidden", "backbone.heads", "backbone.intermediate", "backbone.vocab"),
    *("pretrain.batch", "general.batch", "finetune.batch"),
    *("pretrain.max_length", "general.max_length", "finetune.max_length"),
    *("measure.samples", "measure.length", "trainer.devices", "trainer.log_every", "trainer.checkpoint_every"),
    "source.documents",
)
NOT_NEGATIVE = (
    *("seed", "source.seed", "trainer.workers", "backbone.dropout", "backbone.attention_dropout"),
    *("pretrain.warmup", "finetune.warmup", "general.warmup"),
    *("pretrain.weight_decay", "finetune.weight_decay", "general.weight_decay"),
    *("distill.labels", "distill.logits", "distill.hidden", "distill.attention", "distill.task_rows"),
    *("distill.scores", "distill.relations", "distill.words"),
)
POSITIVE = (
    *("k", "pretrain.lr", "general.lr", "finetune.lr", "distill.temperature"),
    *("backbone.init", "backbone.position_init"),
)


def nearest(word: str, valid: Iterable[str]) -> str:
    """ " (did you mean X?)" for a near miss, the list of valid names when it is short, else nothing."""
    names = sorted(set(valid))
    tail = {name.rpartition("/")[2].rpartition(".")[2]: name for name in names}
    close = difflib.get_close_matches(word, names, n=1) or [
        tail[match] for match in difflib.get_close_matches(word.rpartition("/")[2].rpartition(".")[2], tail, n=1)
    ]
    if close:
        return f"; did you mean {close[0]}?"
    return f"; valid: {', '.join(names)}" if len(names) <= 12 else ""


def check_values(config: Config) -> None:
    """Each key against its choices or range."""
    for key, valid in CHOICES.items():
        value = _value(config, key)
        if value not in valid:
            raise ConfigError(f"{key}={value} is not valid{nearest(str(value), filter(None, valid))}")
    for key in AT_LEAST_ONE:
        if _value(config, key) < 1:
            raise ConfigError(f"{key}={_value(config, key)} is not valid; it is a whole number of at least 1")
    for key in NOT_NEGATIVE:
        if not _value(config, key) >= 0:
            raise ConfigError(f"{key}={_value(config, key)} is not valid; it is at least 0")
    for key in POSITIVE:
        if not 0 < _value(config, key) < float("inf"):
            raise ConfigError(f"{key}={_value(config, key)} is not valid; it is a number above 0")


def _value(config: Config, key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        node = getattr(node, part)
    return node
