"""Checks of a task with pairs of texts: its columns, lengths, languages, metrics and how its texts are generated."""

from __future__ import annotations

from typing import Any

from spikelm.config.schema import TaskConfig
from spikelm.errors import ConfigError

METRICS = ("rougeL", "rouge1", "rouge2", "rougeLsum", "bleu", "chrf")
GENERATE = ("beams", "min_length", "max_length", "length_penalty")
MAY = ("no_repeat_ngram",)  # words in a row that no text has twice; 0, or not there: any


def check_pairs(task: TaskConfig, positions: int) -> None:
    """Raise a ConfigError that names the key, its value and what is valid; other kinds of tasks have none of this."""
    if task.kind != "seq2seq":
        return
    if task.files:
        raise ConfigError(
            "task.files is for labelled rows", "pairs of texts are read with source=local source.root=DIR"
        )
    if len(task.columns) != 2:
        raise ConfigError(f"task.columns={list(task.columns)} is not valid; it is the source and the target")
    if len(task.languages) not in (0, 2):
        raise ConfigError(f"task.languages={list(task.languages)} is not valid; it is none or two: source and target")
    for name in task.metrics:
        if name not in METRICS:
            raise ConfigError(f"task.metrics has {name}; valid: {', '.join(METRICS)}")
    for key in ("source_length", "target_length"):
        if getattr(task, key) < 3:  # a text has two special tokens
            raise ConfigError(f"task.{key}={getattr(task, key)} is not valid; it is a whole number of at least 3")
    _check_generate(task.generate)
    lengths = {"source_length": task.source_length, "target_length": task.target_length}
    for key, length in {**lengths, "generate.max_length": task.generate["max_length"]}.items():
        if length > positions:
            raise ConfigError(f"task.{key}={length} is longer than backbone.positions={positions}")


def _check_generate(settings: dict[str, Any]) -> None:
    for key in (*settings, *GENERATE):
        if key not in (*GENERATE, *MAY) or (key in GENERATE and key not in settings):
            told = f"task.generate has {', '.join(settings) or 'nothing'}"
            raise ConfigError(f"{told}; it needs {', '.join(GENERATE)} and may have {', '.join(MAY)}")
    for key, least in (("beams", 1), ("min_length", 0), ("max_length", 1), ("no_repeat_ngram", 0)):
        value = settings.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"task.generate.{key}={value} is not valid; it is a whole number of at least {least}")
    if settings["min_length"] > settings["max_length"]:
        lengths = f"{settings['min_length']} is above task.generate.max_length={settings['max_length']}"
        raise ConfigError(f"task.generate.min_length={lengths}")
    penalty = settings["length_penalty"]
    if not isinstance(penalty, int | float) or isinstance(penalty, bool) or not abs(penalty) < float("inf"):
        raise ConfigError(f"task.generate.length_penalty={penalty} is not valid; it is a number")
