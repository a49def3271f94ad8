"""The files of text pairs, as people have them: one with two columns, or two whose lines belong together.

A file's name says its split and, where it has one language, its side: train.jsonl, test.en and test.fr, test.en-fr.src,
newstest2015.ref, en.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.row_files import READERS, FileRows, Layout, numbered_lines, read_rows
from spikelm.data.sources.task_files import HELD_OUT, SHARD, listing, rows_folder, split_files, split_names, squeezed
from spikelm.errors import DataError

#: what the names of line files end with, beside the names of the columns: sources, targets
ENDINGS = ((".source", ".src"), (".target", ".tgt", ".ref"))
PLAIN = ".txt"  # may follow the ending
#: names that the two columns may have together, beside their own
COLUMNS = (("source", "target"), ("src", "tgt"), ("src", "ref"))
TRAINED_ON = "train"
TEST = "test"


def text_pair_files(task: TaskConfig, root: Path, splits: Iterable[str], train: bool = True) -> dict[str, list[Path]]:
    """The files of each split of a task: one with both columns (or its shards), or a source and a target file.

    Where there is no training, `train=False`, a folder may lack the rows for it.
    """
    folder = rows_folder(root, task, (*READERS, PLAIN, *chain(*_endings(task))))
    files = {split: _line_files(folder, task, split) or _row_files(folder, split) for split in splits}
    if not files.get(TEST, True):
        files[TEST] = _only_others(folder, task)
    if not train and not files.get(TRAINED_ON):
        files.pop(TRAINED_ON, None)
    for split, paths in files.items():
        if not paths:
            raise _missing(folder, task, split)
    return files


def read_text_pairs(task: TaskConfig, paths: list[Path], layout: Layout) -> list[tuple[str, FileRows]]:
    """The rows of a split's files, by file."""
    if all(path.suffix.lower() in READERS for path in paths):
        return [(str(path), read_rows(path, layout)) for path in paths]
    return [(str(paths[0]), _read_lines(task, *paths))]


def called_otherwise(task: TaskConfig, split: str, paths: list[Path]) -> str:
    """What is told of a split that was taken from files which do not say that they are it; empty where they do."""
    if split != TEST or any(_stem(path, task).startswith(TEST) for path in paths):
        return ""
    return f"{task.name} {split}: the rows of {' and '.join(path.name for path in paths)}, the only ones there"


def _endings(task: TaskConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    sources, targets = ENDINGS
    return (*sources, f".{task.columns[0]}"), (*targets, f".{task.columns[1]}")


def _side(path: Path, task: TaskConfig) -> tuple[int | None, str]:
    """Of which side a line file is (0: sources), and its name without that; None of any other file."""
    name = path.name.lower().removesuffix(PLAIN)
    for side, endings in enumerate(_endings(task)):
        for ending in endings:
            if f".{name}".endswith(ending):  # en.txt is nothing but its side
                return side, f".{name}".removesuffix(ending)
    return None, path.stem


def _stem(path: Path, task: TaskConfig) -> str:
    """A file's name without its endings and its languages: test of test.en-fr.en, and of test.jsonl."""
    _, stem = _side(path, task)
    first, second = task.columns
    tag = rf"[._-]?({first}[_-]?{second}|{second}[_-]?{first})$"
    return squeezed(re.sub(tag, "", stem, flags=re.IGNORECASE))


def _is_of(stem: str, split: str) -> bool:
    return stem in [squeezed(name) for name in split_names(split)]


def _one_of_each(paths: Iterable[Path], task: TaskConfig) -> list[list[Path]]:
    """The line files among some, sources and targets."""
    sides: list[list[Path]] = [[], []]
    for path in paths:
        side, _ = _side(path, task)
        if side is not None and path.is_file():
            sides[side].append(path)
    return sides


def _line_files(folder: Path, task: TaskConfig, split: str) -> list[Path]:
    of_split = [path for path in sorted(folder.iterdir()) if path.is_file() and _is_of(_stem(path, task), split)]
    sides = _one_of_each(of_split, task)
    row_files = [path for path in of_split if path.suffix.lower() in READERS]
    found = [path for paths in sides for path in paths]
    if not found:
        return []
    if max(map(len, sides)) > 1 or row_files:
        both = ", ".join(path.name for path in [*found, *row_files])
        raise DataError(f"{folder} has more than one form of {split}: {both}", "keep one of them")
    if not all(sides):
        has = ", ".join(path.name for path in found)
        raise DataError(f"{folder}: {split} is one file {_with_sides(task)}, but there is {has}")
    return found


def _row_files(folder: Path, split: str) -> list[Path]:
    """One file with both columns, or its shards; none where no file is called so."""
    stems = {path.stem for path in folder.iterdir() if path.suffix.lower() in READERS}
    named = (shard["split"] if (shard := SHARD.fullmatch(stem.lower())) else stem for stem in stems)
    return split_files(folder, split) if any(_is_of(squeezed(name), split) for name in named) else []


def _only_others(folder: Path, task: TaskConfig) -> list[Path]:
    """The test where no file is called so: the only file, or the only two, that are no other split's by their names."""
    others = [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and _stem(path, task) not in (TRAINED_ON, *map(squeezed, HELD_OUT))
    ]
    sides = _one_of_each(others, task)
    row_files = [path for path in others if path.suffix.lower() in READERS]
    if [len(paths) for paths in sides] == [1, 1] and not row_files:
        return [paths[0] for paths in sides]
    return row_files if len(row_files) == 1 and not any(sides) else []


def _with_sides(task: TaskConfig) -> str:
    sources, targets = (f"{', '.join(endings[:-1])} or {endings[-1]}" for endings in _endings(task))
    return f"with {sources} and one with {targets}"


def _missing(folder: Path, task: TaskConfig, split: str) -> DataError:
    looked = f"{', '.join(split_names(split))} with {', '.join(READERS)}, or two files, one {_with_sides(task)}"
    others = [name for name in task.splits if name != split]
    fix = f"'~task.splits.{split}' evaluates {' and '.join(others)} alone" if split in task.splits and others else ""
    if split == TRAINED_ON:
        fix = "put it there; weights as they are (neuron=ann finetune.steps=0) or heights per token need none"
    return DataError(f"{folder} has no file for {split}: looked for {looked}; there is {listing(folder)}", fix)


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
