"""Where a task's files lie, as people have them: folders and splits by any common name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.row_files import READERS
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


def local_root(source: SourceConfig) -> Path:
    """The folder of a local source."""
    if not source.root:
        raise DataError("source=local needs source.root=DIR, the folder of the files")
    return Path(source.root)


def task_root(task: TaskConfig, source: SourceConfig) -> Path:
    """Where a task's folder is looked for: the task's own folder, or the root of a local source."""
    return Path(task.files) if task.files else local_root(source)


def has_folder(root: Path, task: TaskConfig) -> bool:
    """Whether root has a folder of the task, or several."""
    return any(_named_folders(place, task) for place in _places(root, task))


def task_folder(root: Path, task: TaskConfig) -> Path:
    """The folder the task names, or its one in root or root/glue (or its like), by any common spelling of its names."""
    if task.files:
        if not Path(task.files).is_dir():
            raise DataError(f"task.files: {task.files} is not a folder", f"{task.name} keeps its rows there")
        return Path(task.files)
    places = _places(root, task)
    folders = [folder for place in places for folder in _named_folders(place, task)]
    if len(folders) > 1:
        raise DataError(f"{task.name} has more than one folder: {', '.join(map(str, folders))}", "keep one of them")
    if not folders:
        names = _folder_names(task)
        held = "; ".join(f"{place} holds {listing(place)}" for place in places)
        spelling = "in any spelling (case, - and _ do not matter)"
        raise DataError(
            f"no folder for {task.name}: looked for {' or '.join(names)} {spelling}; {held}",
            f"put the files into {root}/{names[0]}, or set source.root",
        )
    return folders[0]


def rows_folder(root: Path, task: TaskConfig, endings: Collection[str]) -> Path:
    """The folder of a task's rows: its own, or root itself where that has no folders but files with these endings."""
    if not task.files and not has_folder(root, task):
        held = [path for path in root.iterdir() if not path.name.startswith(".")]
        if not any(path.is_dir() for path in held) and any(path.suffix.lower() in endings for path in held):
            return root
    return task_folder(root, task)


def _folder_names(task: TaskConfig) -> list[str]:
    return [squeezed(name) for name in (task.name.rpartition("/")[2], *task.folders)]


def _places(root: Path, task: TaskConfig) -> list[Path]:
    """root, and the folders in it that may hold the folders of the task's group."""
    group = task.name.rpartition("/")[0]
    collections = COLLECTIONS.get(group, (squeezed(group),)) if group else ()
    return [root, *(path for path in sorted(root.iterdir()) if path.is_dir() and squeezed(path.name) in collections)]


def _named_folders(place: Path, task: TaskConfig) -> list[Path]:
    names = _folder_names(task)
    return [path for path in sorted(place.iterdir()) if path.is_dir() and squeezed(path.name) in names]


def split_names(split: str) -> list[str]:
    """What the files of a split may be called."""
    return [split.replace("validation", other) for other in HELD_OUT] if "validation" in split else [split]


def split_files(folder: Path, split: str) -> list[Path]:
    """The file of a split, or its Parquet shards in order."""
    names = split_names(split)
    files: list[Path] = []
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
            files.append(path)
    if shards and sorted(shards) != list(range(count)):
        raise DataError(f"{folder}: {split} is {count} Parquet files, but only {len(shards)} of them are there")
    if len(files) + bool(shards) > 1:
        both = ", ".join(path.name for path in [*files, *shards.values()])
        raise DataError(f"{folder} has more than one file for {split}: {both}", "keep one of them")
    if not files and not shards:
        raise DataError(
            f"{folder} has no file for {split}: looked for {', '.join(names)} with {', '.join(READERS)}; "
            f"there is {listing(folder)}"
        )
    return files or [shards[index] for index in sorted(shards)]


def task_files(task: TaskConfig, root: Path, splits: Iterable[str]) -> dict[str, list[Path]]:
    """The files of each split of a task."""
    folder = rows_folder(root, task, READERS)
    return {split: split_files(folder, split) for split in splits}
