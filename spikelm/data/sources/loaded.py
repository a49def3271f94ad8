"""What every loader of this room gives back: rows or documents by split, with the hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig


@dataclass(frozen=True)
class LoadedText:
    """What was read: lists of rows (or streams of documents) by split, with the hash of their content."""

    splits: dict[str, Any]
    content_hash: str
    warnings: tuple[str, ...] = ()  # for the user, not for the record
    task_rows: int = 0  # of the training documents, those at the end that are rows of tasks
    commits: Mapping[str, str] = field(default_factory=dict)  # of the hub's repositories that were read
    entities: Mapping[str, Collection[str]] = field(default_factory=dict)  # by kind, where their maker knows them all

    def record(self, source: SourceConfig) -> dict[str, Any]:
        """The `source` entry of a result."""
        rows = {split: len(items) for split, items in self.splits.items()}
        record = {"name": source.name, "rows": rows, "content_hash": self.content_hash}
        return {**record, "commits": dict(self.commits)} if self.commits else record


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
