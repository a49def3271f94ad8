"""A generated micro-world of short texts: eight GLUE tasks, a corpus and text pairs, true by construction.

It makes its texts from a seed and imports nothing outside this folder.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from spikelm.data.microworld.corpus import document
from spikelm.data.microworld.glue_rows import MAKERS, TWO_TEXT_TASKS, make_rows
from spikelm.data.microworld.text_pair_rows import (
    SEQ2SEQ_ENTITIES,
    SEQ2SEQ_ROWS,
    SEQ2SEQ_TASKS,
    SEQ2SEQ_VERSION,
    seq2seq,
)

VERSION: int = 2  # of the corpus and of single sentences
TWO_TEXTS_VERSION: int = 3  # of the tasks of two texts
MNLI_VERSION: int = 4  # of MNLI: training and matched rows are those of version 3
TASKS: tuple[str, ...] = tuple(MAKERS)

_TRAIN = {
    "cola": 6000,
    "sst2": 10000,
    "mrpc": 4000,
    "stsb": 6000,
    "qqp": 20000,
    "mnli": 20000,
    "qnli": 20000,
    "rte": 3000,
}


def _split_rows(task: str) -> dict[str, int]:
    if task == "mnli":
        held_out = {f"{part}_{kind}": 800 for part in ("validation", "test") for kind in ("matched", "mismatched")}
    else:
        held_out = {"validation": 800, "test": 800}
    return {"train": _TRAIN[task]} | held_out


DEFAULT_ROWS: dict[str, dict[str, int]] = {task: _split_rows(task) for task in TASKS}


def version_of(task: str) -> int:
    """The version of a task's texts, or of the corpus."""
    return MNLI_VERSION if task == "mnli" else _drawn(task)


def _drawn(task: str) -> int:
    """The version that its rows are drawn with."""
    return TWO_TEXTS_VERSION if task in TWO_TEXT_TASKS else VERSION


def _seed(seed: int, task: str = "") -> str:
    return f"microworld/{_drawn(task)}/{seed}"


def glue(task: str, seed: int = 0, rows: Mapping[str, int] | None = None) -> dict[str, list[dict[str, Any]]]:
    """The splits of one task with the hub's columns; rows overrides the counts of single splits."""
    if task not in MAKERS:
        raise ValueError(f"microworld has no task {task!r}; it has {', '.join(TASKS)}")
    counts = {**DEFAULT_ROWS[task], **(rows or {})}
    unknown = sorted(set(counts) - set(DEFAULT_ROWS[task]))
    if unknown:
        raise ValueError(f"microworld {task} has no split {unknown[0]!r}; it has {', '.join(DEFAULT_ROWS[task])}")
    return {split: make_rows(task, split, count, _seed(seed, task)) for split, count in counts.items()}


def documents(count: int, seed: int = 0) -> list[list[str]]:
    """Documents of the pretraining corpus, each a list of sentences about one scene."""
    return [document(random.Random(f"{_seed(seed)}/document/{index}")) for index in range(count)]


__all__ = [
    "DEFAULT_ROWS",
    "MNLI_VERSION",
    "SEQ2SEQ_ENTITIES",
    "SEQ2SEQ_ROWS",
    "SEQ2SEQ_TASKS",
    "SEQ2SEQ_VERSION",
    "TASKS",
    "TWO_TEXTS_VERSION",
    "VERSION",
    "documents",
    "glue",
    "seq2seq",
    "version_of",
]
