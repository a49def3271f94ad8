"""GLUE tasks from files as people have them: folders and splits by any common name, labels as ids."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spikelm.config.schema import TaskConfig
from spikelm.data.sources.row_files import READERS, Layout, Table, read_table
from spikelm.errors import DataError

#: group of tasks -> folders, beside the root itself, that may hold the tasks' folders
COLLECTIONS = {
    "glue": ("glue", "gluedata"),
    "sum": ("sum", "summarization", "summarisation"),
    "mt": ("mt", "wmt", "translation"),
}
HELD_OUT = ("validation", "dev", "val", "valid")  # names of the split the hub calls validation
#: the hub's names of Parquet files, which once ended with a hash
SHARD = re.compile(r"(?P<split>.+?)-(?P<index>\d+)-of-(?P<count>\d+)(-[0-9a-f]{16})?")


def squeezed(name: str) -> str:
    """A name without case and punctuation: SST-2, sst_2 and sst2 are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def listing(folder: Path) -> str:
    """What a folder holds, for errors."""
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return ", ".join([*names[:20], *(["..."] if len(names) > 20 else [])]) or "nothing"


def task_folder(root: Path, task: TaskConfig) -> Path:
    """The folder the task names, or its one in root or root/glue (or its like), by any common spelling of its names."""
    if task.files:
        if not Path(task.files).is_dir():
            raise DataError(f"task.files: {task.files} is not a folder", f"{task.name} keeps its rows there")
        return Path(task.files)
    group, _, own = task.name.rpartition("/")
    names = [squeezed(own), *map(squeezed, task.folders)]
    name = " or ".join(names)
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()]
    places = [root, *(path for path in folders if squeezed(path.name) in COLLECTIONS.get(group, (group,)))]
    found = [path for place in places for path in sorted(place.iterdir()) if path.is_dir()]
    found = [path for path in found if squeezed(path.name) in names]
    if len(found) > 1:
        raise DataError(f"{task.name} has more than one folder: {', '.join(map(str, found))}", "keep one of them")
    if not found:
        there = "; ".join(f"{place} holds {listing(place)}" for place in places)
        raise DataError(
            f"no folder for {task.name}: looked for {name} in any spelling (case, - and _ do not matter); {there}",
            f"put the files into {root}/{names[0]}, or set source.root",
        )
    return found[0]


def split_names(split: str) -> list[str]:
    """What the files of a split may be called."""
    return [split.replace("validation", other) for other in HELD_OUT] if "validation" in split else [split]


def split_files(folder: Path, split: str) -> list[Path]:
    """The file of a split, or its Parquet shards in order."""
    names = split_names(split)
    found: list[Path] = []
    shards: dict[int, Path] = {}
    count = 0
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in READERS or not path.is_file():
            continue
        stem = path.stem.lower()
        if path.suffix.lower() == ".parquet" and (shard := SHARD.fullmatch(stem)):
            if squeezed(shard["split"]) in map(squeezed, names):
                shards[int(shard["index"])], count = path, int(shard["count"])
        elif squeezed(stem) in map(squeezed, names):
            found.append(path)
    if shards and sorted(shards) != list(range(count)):
        raise DataError(f"{folder}: {split} is {count} Parquet files, but only {len(shards)} of them are there")
    if len(found) + bool(shards) > 1:
        both = ", ".join(path.name for path in [*found, *shards.values()])
        raise DataError(f"{folder} has more than one file for {split}: {both}", "keep one of them")
    if not found and not shards:
        raise DataError(
            f"{folder} has no file for {split}: looked for {', '.join(names)} with {', '.join(READERS)}; "
            f"there is {listing(folder)}"
        )
    return found or [shards[index] for index in sorted(shards)]


def task_files(task: TaskConfig, root: Path, splits: Iterable[str]) -> dict[str, list[Path]]:
    """The files of each split of a task."""
    folder = task_folder(root, task)
    return {split: split_files(folder, split) for split in splits}


def local_rows(
    task: TaskConfig, files: Mapping[str, list[Path]], read: Callable[[Path, Layout], Table] = read_table
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """The rows of each split as the hub has them (its columns, label ids, idx), and what to tell the user."""
    wanted = (*task.columns, "label")
    layout = Layout(
        columns={name: (name, *([task.file_columns[name]] if name in task.file_columns else [])) for name in wanted},
        headerless=task.tsv_columns,
        skip_broken=task.skip_broken,
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    notes: list[str] = []
    for split, paths in files.items():
        rows[split] = []
        for path in paths:
            table = read(path, layout)
            if table.skipped:
                notes.append(f"{path}: {table.skipped} rows with the wrong number of fields were left out")
            rows[split] += [_row(task, where, record) for where, record in table.rows]
        for index, row in enumerate(rows[split]):
            row["idx"] = index
    return rows, notes


def _row(task: TaskConfig, where: str, record: Mapping[str, Any]) -> dict[str, Any]:
    for column in task.columns:
        if not isinstance(record[column], str):
            raise DataError(f"{where}: {column} is {record[column]!r}, expected text")
    return {**{column: record[column] for column in task.columns}, "label": _label(task, where, record["label"])}


def _label(task: TaskConfig, where: str, value: Any) -> int | float:
    """A label id from a number or a name; a score for a regression."""
    if task.kind == "regression":
        score = _number(value)
        if not 0 <= score <= 5:
            raise DataError(f"{where}: label {value!r} is not a number from 0 to 5")
        return _decimal(score)
    if isinstance(value, str) and value in task.labels:
        return list(task.labels).index(value)
    number = _number(value)
    if not number.is_integer() or not 0 <= number < len(task.labels):
        known = ", ".join(f"{index} ({name})" for index, name in enumerate(task.labels))
        raise DataError(f"{where}: label {value!r} is not one of {known}")
    return int(number)


def _decimal(score: float) -> float:
    """A score kept in single precision, as the hub's, is the decimal it was made from: 3.8, not 3.799999952."""
    single = np.float32(score)
    return float(str(single)) if float(single) == score else score


def _number(value: Any) -> float:
    """The value as a number, not-a-number when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
