"""The pairs of texts of a summarisation or translation task, wherever they come from: `load_text_pairs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spikelm.config.schema import SourceConfig, TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.hub import hub_files, hub_table
from spikelm.data.sources.row_files import Table
from spikelm.data.sources.rows import Text, content_hash, local_root, other_counts
from spikelm.data.sources.text_pair_files import read_text_pairs, text_pair_files, text_pair_layout
from spikelm.errors import DataError

Pair = dict[str, Any]  # the task's two columns


def load_text_pairs(task: TaskConfig, source: SourceConfig) -> Text:
    """Train and evaluated splits of a task: rows with two texts, none of whose targets is empty."""
    splits = ("train", *task.splits)
    notes: list[str] = []
    if source.name == "embedded":
        rows = _embedded(task, source)
    else:
        tables = _local(task, source, splits) if source.name == "local" else _hub(task, source, splits)
        rows = {split: _checked(task, split, tables[split], notes) for split in splits}
        notes += other_counts(task, rows)
    for split in splits:
        rows[split] = rows[split][: source.train_rows if split == "train" else source.dev_rows]
        if not rows[split]:
            raise DataError(f"{task.name} {split} has no rows")
    return Text(rows, content_hash([split, row] for split in splits for row in rows[split]), tuple(notes))


def _embedded(task: TaskConfig, source: SourceConfig) -> dict[str, list[Pair]]:
    name = task.name.rpartition("/")[2]
    if name not in microworld.SEQ2SEQ_TASKS:
        raise DataError(f"the embedded data has no task {task.name}; it has {', '.join(microworld.SEQ2SEQ_TASKS)}")
    wanted = {"train": source.train_rows, **dict.fromkeys(task.splits, source.dev_rows)}
    # A split's rows do not depend on their number, so fewer rows are the first of the full set: cheaper to make.
    full = microworld.SEQ2SEQ_ROWS[name]
    rows = {split: min(full[split], wanted[split] or full[split]) if split in wanted else 0 for split in full}
    return {split: list(some) for split, some in microworld.seq2seq(name, source.seed, rows).items()}


def _local(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...]) -> dict[str, list[tuple[str, Table]]]:
    files = text_pair_files(task, local_root(source), splits)
    return {split: read_text_pairs(task, paths) for split, paths in files.items()}


def _hub(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...]) -> dict[str, list[tuple[str, Table]]]:
    if not task.repo:
        raise DataError(
            f"{task.name} has no repository on the hub", "task.repo=OWNER/NAME, or read it with source=local"
        )
    files: Mapping[str, list[Path]] = hub_files(
        task.repo, task.hub or None, splits, task.revision or None, source.mirror
    )
    layout = text_pair_layout(task)
    return {split: [(str(path), hub_table(path, layout)) for path in paths] for split, paths in files.items()}


def _checked(task: TaskConfig, split: str, tables: list[tuple[str, Table]], notes: list[str]) -> list[Pair]:
    """The rows of a split: texts, and targets that say something; what was left out is noted."""
    rows: list[Pair] = []
    left_out = empty = 0
    for path, table in tables:
        if table.skipped:
            notes.append(f"{path}: {table.skipped} rows with the wrong number of fields were left out")
        for where, record in table.rows:
            for column in task.columns:
                if not isinstance(record[column], str):
                    raise DataError(f"{where}: {column} is {record[column]!r}, expected text")
            source, target = (record[column] for column in task.columns)
            if not target.strip():
                if not task.skip_broken:
                    what = f"{where}: {task.columns[1]} is empty"
                    raise DataError(what, "fill it, or task.skip_broken=true leaves such rows out")
                left_out += 1
                continue
            empty += not source.strip()
            rows.append({column: record[column] for column in task.columns})
    if left_out:
        notes.append(f"{task.name} {split}: {left_out} rows with an empty {task.columns[1]} were left out")
    if empty:
        notes.append(f"{task.name} {split}: {empty} rows have an empty {task.columns[0]}")
    return rows
