"""The labelled rows of a GLUE-like task, wherever they come from: `load_rows`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spikelm.config.schema import SourceConfig, TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.hub import hub_files, hub_table
from spikelm.data.sources.task_files import local_rows, task_files
from spikelm.errors import DataError

Row = dict[str, Any]
GLUE = "nyu-mll/glue"


@dataclass(frozen=True)
class Text:
    """What was read: lists of rows (or streams of documents) by split, with the hash of their content."""

    splits: dict[str, Any]
    content_hash: str
    warnings: tuple[str, ...] = ()  # for the user, not for the record
    task_rows: int = 0  # of the training documents, those at the end that are rows of tasks

    def record(self, source: SourceConfig) -> dict[str, Any]:
        """The `source` entry of a result."""
        rows = {split: len(items) for split, items in self.splits.items()}
        return {"name": source.name, "rows": rows, "content_hash": self.content_hash}


def content_hash(items: Iterable[Any]) -> str:
    """sha256 over the items as JSON lines."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(json.dumps(item, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def load_rows(task: TaskConfig, source: SourceConfig) -> Text:
    """Train and evaluated splits of a task, checked against its columns and labels."""
    splits = ("train", *task.splits)
    found: Mapping[str, list[Row]]
    notes: list[str] = []
    if task.files or source.name == "local":
        found, notes = local_rows(task, task_files(task, rows_root(task, source), splits))
    elif source.name == "embedded":
        found = _embedded_rows(task, source)
    else:
        if not task.hub:
            raise DataError(f"{task.name} has no name on the hub", "task.hub=NAME, or read it with source=local")
        files = hub_files(source.glue or GLUE, task.hub, splits, source.revision, source.mirror)
        found, notes = local_rows(task, files, hub_table)
    rows = {split: list(found[split]) for split in splits}
    notes += other_counts(task, rows) if task.files or source.name != "embedded" else []
    for split, items in rows.items():
        limit = source.train_rows if split == "train" else source.dev_rows
        rows[split] = items[:limit]
        check_rows(task, split, rows[split])
    return Text(rows, content_hash([split, row] for split in splits for row in rows[split]), tuple(notes))


def other_counts(task: TaskConfig, rows: Mapping[str, list[Row]]) -> list[str]:
    """A line for each split that is not the published one."""
    counts = {split: len(items) for split, items in rows.items()}
    return [
        f"{task.name} {split} has {counts[split]} rows, the official split has {official}: scores are not comparable"
        for split, official in task.official_rows.items()
        if split in counts and counts[split] != official
    ]


def local_root(source: SourceConfig) -> Path:
    """The folder of a local source."""
    if not source.root:
        raise DataError("source=local needs source.root=DIR, the folder of the files")
    return Path(source.root)


def rows_root(task: TaskConfig, source: SourceConfig) -> Path:
    """Where the files of a task's rows are: its own folder, or the root of a local source."""
    return Path(task.files) if task.files else local_root(source)


def check_rows(task: TaskConfig, split: str, rows: list[Row]) -> None:
    """Columns and labels are what the task says; the error names split, row and expectation."""
    if not rows:
        raise DataError(f"{task.name} {split} has no rows")
    for index, row in enumerate(rows):
        where = f"{task.name} {split} row {index}"
        for column in task.columns:
            if not isinstance(row.get(column), str):
                raise DataError(f"{where}: column {column!r} is not text (columns: {', '.join(row)})")
        label = row.get("label")
        if task.kind == "regression":
            if not isinstance(label, int | float) or not 0 <= label <= 5:
                raise DataError(f"{where}: label {label!r} is not a number from 0 to 5")
        elif not isinstance(label, int) or not 0 <= label < len(task.labels):
            raise DataError(f"{where}: label {label!r} is not one of 0 to {len(task.labels) - 1}")


def _embedded_rows(task: TaskConfig, source: SourceConfig) -> Mapping[str, list[Row]]:
    name = task.name.removeprefix("glue/")
    if name not in microworld.TASKS:
        raise DataError(f"the embedded data has no task {task.name}; it has {', '.join(microworld.TASKS)}")
    wanted = {"train": source.train_rows, **dict.fromkeys(task.splits, source.dev_rows)}
    # A split's rows do not depend on their number, so fewer rows are the first of the full set: cheaper to make.
    rows = {split: min(count, microworld.DEFAULT_ROWS[name][split]) for split, count in wanted.items() if count}
    unused = {split: 0 for split in microworld.DEFAULT_ROWS[name] if split.startswith("test")}
    return microworld.glue(name, seed=source.seed, rows={**rows, **unused})
