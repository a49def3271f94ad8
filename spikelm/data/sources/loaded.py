"""What every loader of this room gives back: rows or documents by split, with the hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from spikelm.catalog.quantities import rows_text
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.errors import DataError

HELD_OUT = 10  # source.tune: every so many training rows one to choose settings by


@dataclass(frozen=True)
class LoadedText:
    """What was read: lists of rows (or streams of documents) by split, with the hash of their content."""

    splits: dict[str, Any]
    content_hash: str
    warnings: tuple[str, ...] = ()  # for the user, not for the record
    task_rows: int = 0  # of the training documents, those at the end that are rows of tasks
    commits: Mapping[str, str] = field(default_factory=dict)  # of the hub's repositories that were read
    available: Mapping[str, int] = field(default_factory=dict)  # rows of those splits of which only the first are here
    entities: Mapping[str, Collection[str]] = field(default_factory=dict)  # by kind, where their maker knows them all

    @property
    def rows(self) -> dict[str, int]:
        """How many there are of each split."""
        return {split: len(items) for split, items in self.splits.items()}

    @property
    def left_out(self) -> str:
        """What is told where not all rows are read, and what reads them; empty where all are."""
        if not self.available:
            return ""
        keys = dict.fromkeys("source.train_rows" if split == "train" else "source.dev_rows" for split in self.available)
        return f"rows: {rows_text(self.rows, self.available)} ({' '.join(f'{key}=null' for key in keys)} reads all)"

    def record(self, name: str) -> dict[str, Any]:
        """The `source` entry of a result."""
        record = {"name": name, "rows": self.rows, "content_hash": self.content_hash}
        others = {"available": dict(self.available), "commits": dict(self.commits)}
        return {**record, **{key: value for key, value in others.items() if value}}


def first_rows(
    task: TaskConfig, source: SourceConfig, rows: Mapping[str, Any], counts: Mapping[str, int] | None = None
) -> LoadedText:
    """As many rows of each split as the source asks for; `counts`: of how many, where `rows` are not all of them."""
    counts = counts or {split: len(items) for split, items in rows.items()}
    limits = {"train": source.train_rows, **dict.fromkeys(task.splits, source.dev_rows)}
    kept = {split: rows[split][:limit] for split, limit in limits.items() if split in rows}
    available = {split: counts[split] for split in kept if len(kept[split]) < counts[split]}
    if source.tune:
        if "train" not in kept:
            raise DataError(f"source.tune holds training rows back, and {task.name} has none", "source.tune=false")
        kept = _for_tuning(kept["train"], task, source.dev_rows)
        available = {split: count for split, count in available.items() if split == "train"}
    if empty := [split for split in kept if not kept[split]]:
        raise DataError(f"{task.name} {empty[0]} has no rows")
    content = content_hash([split, row] for split in kept for row in kept[split])
    return LoadedText(kept, content, available=available)


def _for_tuning(train: Sequence[Any], task: TaskConfig, most: int | None) -> dict[str, Any]:
    """Every tenth training row to evaluate, at most `most` of them, and the others to train on."""
    held_out = train[HELD_OUT - 1 :: HELD_OUT]
    trained_on = [row for index, row in enumerate(train) if index % HELD_OUT != HELD_OUT - 1]
    return {"train": trained_on, **dict.fromkeys(task.splits, held_out[:most])}


class ContentHash:
    """sha256 over items as JSON lines, one after another."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, item: Any) -> None:
        self._digest.update(json.dumps(item, sort_keys=True, ensure_ascii=False).encode() + b"\n")

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def content_hash(items: Iterable[Any]) -> str:
    """sha256 over the items as JSON lines."""
    running = ContentHash()
    for item in items:
        running.add(item)
    return running.hexdigest()


def unofficial_counts(task: TaskConfig, rows: Mapping[str, Sized]) -> list[str]:
    """One line for each split that has another number of rows than the published one."""
    counts = {split: len(items) for split, items in rows.items()}
    return [
        f"{task.name} {split} has {counts[split]} rows, the official split has {official}: scores are not comparable"
        for split, official in task.official_rows.items()
        if split in counts and counts[split] != official
    ]
