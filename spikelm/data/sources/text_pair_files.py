"""Text pairs in files: rows with two columns, or two files whose lines belong together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spikelm.config.schema import TaskConfig
from spikelm.data.sources.row_files import READERS, FileRows, Layout, column_names, numbered_lines, read_rows
from spikelm.data.sources.task_files import listing, split_files, split_names, squeezed, task_folder
from spikelm.errors import DataError

NESTED = "translation"  # the hub's column that holds both languages
ENDINGS = ((".source", ".target"), (".src", ".tgt"))  # beside .en and .ro: the names of the columns


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


def text_pair_layout(task: TaskConfig) -> Layout:
    """The two columns by the names they may have, flat or inside `translation`."""
    columns = column_names(task.columns, task.file_columns)
    return Layout(columns, skip_broken=task.skip_broken, nested=NESTED)


def read_text_pairs(task: TaskConfig, paths: list[Path]) -> list[tuple[str, FileRows]]:
    """The rows of a split's files, by file."""
    if all(path.suffix.lower() in READERS for path in paths):
        return [(str(path), read_rows(path, text_pair_layout(task))) for path in paths]
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
