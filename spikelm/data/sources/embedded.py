"""The micro-world as a source of rows: which of a task's splits it makes, and which tasks it does not have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from spikelm.catalog.kinds import LM
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.errors import DataError

RUNNING_TEXT = ("embedded",)  # tasks of language modelling


def embedded_name(task: TaskConfig) -> str:
    """The micro-world's name of a task, which it must have."""
    labelled = task.kind not in ("seq2seq", LM)
    name = task.name.removeprefix("glue/") if labelled else task.name.rpartition("/")[2]
    names = {"seq2seq": microworld.SEQ2SEQ_TASKS, LM: RUNNING_TEXT}.get(task.kind, microworld.TASKS)
    if name not in names:
        published = task.repo or task.name.startswith("glue/")  # GLUE is source.glue
        on_hub = f"source=hub reads it from {task.repo or 'GLUE'}" if published else "source=hub task.repo=OWNER/NAME"
        raise DataError(
            f"the micro-world (source=embedded) has no task {task.name}; it has {', '.join(names)}",
            f"{on_hub}, source=local source.root=DIR reads it from files",
        )
    return name


def embedded_counts(task: TaskConfig) -> dict[str, int]:
    """Rows of every split that the micro-world has of a task."""
    name = embedded_name(task)
    return dict((microworld.SEQ2SEQ_ROWS if task.kind == "seq2seq" else microworld.DEFAULT_ROWS)[name])


def embedded_rows(task: TaskConfig, source: SourceConfig) -> dict[str, list[dict[str, Any]]]:
    """The rows of the splits that a task trains on and evaluates, no more of them than the source asks for."""
    name = embedded_name(task)
    full = embedded_counts(task)
    limits = {"train": source.train_rows, **dict.fromkeys(task.splits, source.dev_rows)}
    if missing := [split for split in limits if split not in full]:
        raise DataError(f"the micro-world's {name} has no split {missing[0]}; it has {', '.join(full)}")
    # A split's rows do not depend on their number, so fewer rows are the first of the full set: cheaper to make.
    wanted = {split: min(full[split], limit or full[split]) for split, limit in limits.items()}
    make = microworld.seq2seq if task.kind == "seq2seq" else microworld.glue
    rows = make(name, source.seed, {**dict.fromkeys(full, 0), **wanted})
    return {split: list(rows[split]) for split in limits}


def embedded_entities(task: TaskConfig) -> Mapping[str, Collection[str]]:
    """The words for people and places that a target of these text pairs may name, by kind."""
    return microworld.SEQ2SEQ_ENTITIES[embedded_name(task)]
