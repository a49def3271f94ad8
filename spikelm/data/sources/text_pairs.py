"""The text pairs (source and target) of a summarisation or translation task, wherever they come from."""

from __future__ import annotations

from typing import Any

from spikelm.config.schema import SourceConfig, TaskConfig
from spikelm.data.sources.embedded import embedded_rows
from spikelm.data.sources.hub import hub_files, read_hub_rows, task_repository
from spikelm.data.sources.loaded import LoadedText, content_hash, unofficial_counts
from spikelm.data.sources.row_files import FileRows
from spikelm.data.sources.task_files import local_root
from spikelm.data.sources.text_pair_files import read_text_pairs, text_pair_files, text_pair_layout
from spikelm.errors import DataError

TextPair = dict[str, Any]  # the task's two columns
Named = list[tuple[str, FileRows]]  # files by name, for errors


def load_text_pairs(task: TaskConfig, source: SourceConfig) -> LoadedText:
    """Train and evaluated splits of a task: rows with two texts, none of whose targets is empty."""
    splits = ("train", *task.splits)
    notes: list[str] = []
    if source.name == "embedded":
        rows = embedded_rows(task, source)
    else:
        files = (_local_pairs if source.name == "local" else _hub_pairs)(task, source, splits)
        rows = {split: _checked(task, split, files[split], notes) for split in splits}
        notes += unofficial_counts(task, rows)
    for split in splits:
        rows[split] = rows[split][: source.train_rows if split == "train" else source.dev_rows]
        if not rows[split]:
            raise DataError(f"{task.name} {split} has no rows")
    return LoadedText(rows, content_hash([split, row] for split in splits for row in rows[split]), tuple(notes))


def _local_pairs(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...]) -> dict[str, Named]:
    files = text_pair_files(task, local_root(source), splits)
    return {split: read_text_pairs(task, paths) for split, paths in files.items()}


def _hub_pairs(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...]) -> dict[str, Named]:
    files = hub_files(task_repository(task, source), splits, source.mirror)
    layout = text_pair_layout(task)
    return {split: [(str(path), read_hub_rows(path, layout)) for path in paths] for split, paths in files.items()}


def _checked(task: TaskConfig, split: str, files: Named, notes: list[str]) -> list[TextPair]:
    """The rows of a split: texts, and targets that say something; what was left out is noted."""
    source_column, target_column = task.columns
    rows: list[TextPair] = []
    without_target = without_source = 0
    for path, file_rows in files:
        if file_rows.skipped:
            notes.append(f"{path}: {file_rows.skipped} rows with the wrong number of fields were left out")
        for where, record in file_rows.rows:
            for column in task.columns:
                if not isinstance(record[column], str):
                    raise DataError(f"{where}: {column} is {record[column]!r}, expected text")
            if not record[target_column].strip():
                if not task.skip_broken:
                    what = f"{where}: {target_column} is empty"
                    raise DataError(what, "fill it, or task.skip_broken=true leaves such rows out")
                without_target += 1
                continue
            without_source += not record[source_column].strip()
            rows.append({column: record[column] for column in task.columns})
    if without_target:
        notes.append(f"{task.name} {split}: {without_target} rows with an empty {target_column} were left out")
    if without_source:
        notes.append(f"{task.name} {split}: {without_source} rows have an empty {source_column}")
    return rows
