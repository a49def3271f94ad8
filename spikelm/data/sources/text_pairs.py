"""The text pairs (source and target) of a summarisation or translation task, wherever they come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.embedded import embedded_counts, embedded_entities, embedded_rows
from spikelm.data.sources.hub import Files, Origin, hub_files, read_hub_rows, task_origin, task_repository
from spikelm.data.sources.loaded import LoadedText, first_rows, unofficial_counts
from spikelm.data.sources.row_files import FileRows, Layout, column_names, shortened
from spikelm.data.sources.task_files import local_root
from spikelm.data.sources.text_pair_files import (
    COLUMNS,
    TRAINED_ON,
    called_otherwise,
    read_text_pairs,
    text_pair_files,
)
from spikelm.errors import DataError

NESTED = "translation"  # the hub's column that holds both languages
TextPair = dict[str, Any]  # the task's two columns
Named = list[tuple[str, FileRows]]  # files by name, for errors


def load_text_pairs(task: TaskConfig, source: SourceConfig) -> LoadedText:
    """Train and evaluated splits of a task: rows with two texts, none of whose targets is empty.

    Local files may lack the rows to train on: a published translator is measured without them.
    """
    splits = (TRAINED_ON, *task.splits)
    notes: list[str] = []
    read_from = Origin({})
    counts: Mapping[str, int] | None = None
    entities: Mapping[str, Collection[str]] = {}
    if source.name == "embedded":
        rows, counts, entities = embedded_rows(task, source), embedded_counts(task), embedded_entities(task)
    else:
        if source.name == "local":
            files = _local_rows(task, source, splits, notes)
        else:
            fetched = hub_files(task_repository(task, source), splits, source.mirror)
            files, read_from = _hub_rows(task, fetched), task_origin(task, source, fetched)
        rows = {split: _checked(task, split, files[split], notes) for split in files}
        notes += unofficial_counts(task, rows)
    text = first_rows(task, source, rows, counts)
    return replace(text, warnings=(*notes, *read_from.warnings), commits=read_from.commits, entities=entities)


def _local_rows(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...], notes: list[str]) -> dict[str, Named]:
    """Those of the splits; who trains asked for the rows to train on before (`source_identity`)."""
    files = text_pair_files(task, local_root(source), splits, train=False)
    notes += [note for split, paths in files.items() if (note := called_otherwise(task, split, paths))]
    return {split: read_text_pairs(task, paths, _layout(task)) for split, paths in files.items()}


def _hub_rows(task: TaskConfig, files: Files) -> dict[str, Named]:
    layout = _layout(task)
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
                    raise DataError(f"{where}: {column} is {shortened(record[column])}, expected text")
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


def _layout(task: TaskConfig) -> Layout:
    """The two columns by the names they may have, flat or inside `translation`."""
    return Layout(
        column_names(task.columns, task.file_columns),
        headerless=task.tsv_columns,
        skip_broken=task.skip_broken,
        nested=NESTED,
        others=COLUMNS,
    )
