"""The text pairs (source and target) of a summarisation or translation task, wherever they come from.

A local split is one file with two columns, or two files whose lines belong together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.embedded import embedded_counts, embedded_entities, embedded_rows
from spikelm.data.sources.hub import Files, Origin, hub_files, read_hub_rows, task_origin, task_repository
from spikelm.data.sources.loaded import LoadedText, first_rows, unofficial_counts
from spikelm.data.sources.row_files import READERS, FileRows, Layout, column_names, numbered_lines, read_rows, shortened
from spikelm.data.sources.task_files import listing, local_root, split_files, split_names, squeezed, task_folder
from spikelm.errors import DataError

NESTED = "translation"  # the hub's column that holds both languages
ENDINGS = ((".source", ".target"), (".src", ".tgt"))  # beside .en and .ro: the names of the columns
TextPair = dict[str, Any]  # the task's two columns
Named = list[tuple[str, FileRows]]  # files by name, for errors


def load_text_pairs(task: TaskConfig, source: SourceConfig) -> LoadedText:
    """Train and evaluated splits of a task: rows with two texts, none of whose targets is empty."""
    splits = ("train", *task.splits)
    notes: list[str] = []
    read_from = Origin({})
    counts: Mapping[str, int] | None = None
    entities: Mapping[str, Collection[str]] = {}
    if source.name == "embedded":
        rows, counts, entities = embedded_rows(task, source), embedded_counts(task), embedded_entities(task)
    else:
        if source.name == "local":
            files = _local_rows(task, source, splits)
        else:
            fetched = hub_files(task_repository(task, source), splits, source.mirror)
            files, read_from = _hub_rows(task, fetched), task_origin(task, source, fetched)
        rows = {split: _checked(task, split, files[split], notes) for split in splits}
        notes += unofficial_counts(task, rows)
    text = first_rows(task, source, rows, counts)
    return replace(text, warnings=(*notes, *read_from.warnings), commits=read_from.commits, entities=entities)


def _local_rows(task: TaskConfig, source: SourceConfig, splits: tuple[str, ...]) -> dict[str, Named]:
    files = text_pair_files(task, local_root(source), splits)
    return {split: _read(task, paths) for split, paths in files.items()}


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


def text_pair_files(task: TaskConfig, root: Path, splits: Iterable[str]) -> dict[str, list[Path]]:
    """The files of each split of a task: one with both columns (or its shards), or a source and a target file."""
    folder = task_folder(root, task)
    return {split: _line_files(folder, task, split) or _row_files(folder, task, split) for split in splits}


def _endings(task: TaskConfig) -> list[tuple[str, str]]:
    return [*ENDINGS, (f".{task.columns[0]}", f".{task.columns[1]}")]


def _line_files(folder: Path, task: TaskConfig, split: str) -> list[Path]:
    names = [squeezed(name) for name in split_names(split)]
    of_split = [path for path in sorted(folder.iterdir()) if path.is_file() and squeezed(path.stem) in names]
    line_files = []
    for endings in _endings(task):
        pair = [[path for path in of_split if path.suffix.lower() == ending] for ending in endings]
        if any(pair) and not all(len(paths) == 1 for paths in pair):
            has = ", ".join(path.name for paths in pair for path in paths)
            raise DataError(f"{folder}: {split} is one file with {' and one with '.join(endings)}, but there is {has}")
        line_files += [paths[0] for paths in pair if paths]
    row_files = [path for path in of_split if path.suffix.lower() in READERS]
    if line_files and len(line_files) + len(row_files) > 2:
        both = ", ".join(path.name for path in [*line_files, *row_files])
        raise DataError(f"{folder} has more than one form of {split}: {both}", "keep one of them")
    return line_files


def _row_files(folder: Path, task: TaskConfig, split: str) -> list[Path]:
    stems = {squeezed(path.stem) for path in folder.iterdir()}
    shards = any(stem.startswith(squeezed(name)) for name in split_names(split) for stem in stems)
    if not shards:
        pairs = ", ".join("/".join(endings) for endings in _endings(task))
        looked = f"{', '.join(split_names(split))} with {', '.join(READERS)}, or two files with {pairs}"
        raise DataError(f"{folder} has no file for {split}: looked for {looked}; there is {listing(folder)}")
    return split_files(folder, split)


def _layout(task: TaskConfig) -> Layout:
    """The two columns by the names they may have, flat or inside `translation`."""
    columns = column_names(task.columns, task.file_columns)
    return Layout(columns, skip_broken=task.skip_broken, nested=NESTED)


def _read(task: TaskConfig, paths: list[Path]) -> Named:
    """The rows of a split's files, by file."""
    if all(path.suffix.lower() in READERS for path in paths):
        return [(str(path), read_rows(path, _layout(task))) for path in paths]
    return [(str(paths[0]), _read_lines(task, *paths))]


def _read_lines(task: TaskConfig, source: Path, target: Path) -> FileRows:
    """Line n of one file with line n of the other."""
    sides = [[line for _, line in numbered_lines(path)] for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        first, second = (f"{path} has {len(side)} lines" for path, side in zip((source, target), sides, strict=True))
        raise DataError(f"{first}, {second}; line n of one belongs to line n of the other")
    if not sides[0]:
        raise DataError(f"{source} is empty")
    rows = (dict(zip(task.columns, texts, strict=True)) for texts in zip(*sides, strict=True))
    return FileRows([(f"{source} and {target.name} line {number}", row) for number, row in enumerate(rows, 1)])
