"""Running text for language models: documents as they were written, each one string, by split.

A document is a file, or a row of the hub; where there are WikiText's titles, it is an article. Its lines are joined by
line feeds, with heads and empty lines. The documents of a split joined by line feeds are its text again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.documents import load_documents, text_folder
from spikelm.data.sources.embedded import RUNNING_TEXT, embedded_name
from spikelm.data.sources.hub import Origin, hub_files, row_texts, task_origin, task_repository
from spikelm.data.sources.loaded import ContentHash, LoadedText, content_hash, unofficial_counts
from spikelm.data.sources.row_files import numbered_lines
from spikelm.data.sources.streams import Document, Documents
from spikelm.data.sources.task_files import has_folder, listing, squeezed, task_folder
from spikelm.data.sources.text_files import ENDINGS, HELD_OUT, TEST, TRAIN, detokenised, is_title
from spikelm.errors import DataError
from spikelm.store.file_facts import place_of, recall, remember
from spikelm.store.hashing import digest

LONGEST = 1_000_000  # characters of a document; a longer one is cut at the end of a line
HELD_OUT_SHARE = 20  # without a file of its own, what is evaluated is one of so many parts: the last lines
LOOKED_AT = 1000  # rows of the hub, by which is told whether rows are lines or documents
NAMES = {"train": TRAIN, "validation": HELD_OUT, "test": TEST}  # split -> what its file or folder may be called
FORMAT = "running text 1"  # raise the number when the same files no longer give the same documents

Lines = Iterator[str | None]  # lines without their ends; None ends a file or row
_SECTION = re.compile(r"((?:= )+)(.*?)((?: =)+)")


@dataclass(frozen=True)
class _Split:
    """The lines of a split, not read yet."""

    files: list[Path]
    lines: Callable[[], Lines]


def load_running_text(task: TaskConfig, source: SourceConfig, cache: Path | None = None) -> LoadedText:
    """The training text and what is evaluated, as the source has it; files are surveyed once, and then streamed.

    Nothing is undone or marked here: `training_text` does that, and the evaluation (data/batches/windows.py).
    """
    if source.name == "embedded":
        return _embedded_text(task, source)
    read_from = Origin({})
    if source.name == "local":
        splits = _local_splits(task, source)
    else:
        files = hub_files(task_repository(task, source), ("train", *task.splits), source.mirror)
        splits = {split: _Split(paths, partial(_hub_lines, paths)) for split, paths in files.items()}
        read_from = task_origin(task, source, files)
    settings = {"format": FORMAT, "documents": source.documents, "splits": list(splits)}
    place = place_of(cache, [split.files for split in splits.values()], settings) if cache else None
    survey = recall(place) or remember(place, _survey(task, splits, source.documents))
    counts: dict[str, int] = survey["rows"]
    streams = {
        split: Documents(partial(_first_documents, splits[split].lines, count), count)
        for split, count in counts.items()
    }
    warnings = [*read_from.warnings]
    if counts["train"] < survey["train"]:
        some = f"{task.name}: the first {counts['train']:,} of {survey['train']:,} training documents are read"
        warnings.append(f"{some} (source.documents={survey['train']} reads all)")
    else:
        warnings += unofficial_counts(task, streams)
    return LoadedText(dict(streams), survey["content_hash"], tuple(warnings), commits=read_from.commits)


def evaluated_splits(task: TaskConfig, text: LoadedText) -> list[str]:
    """What a task evaluates of a text, by what it is: `test` where a folder has no file for `validation`."""
    asked = [split for split in task.splits if split in text.splits]
    return asked or [split for split in text.splits if split != "train"]


def training_text(text: LoadedText, detokenise: str, end: str) -> LoadedText:
    """Documents as a model is trained on them: marks undone where that is asked for, and the end's mark behind each.

    The hash is another, so that what is tokenised is not taken for the text itself.
    """

    def documents(some: Iterable[Document], count: int) -> Documents:
        return Documents(lambda: ([undone(document[0], detokenise) + end] for document in some), count)

    splits = {split: documents(some, len(some)) for split, some in text.splits.items()}
    return replace(text, splits=splits, content_hash=digest([text.content_hash, detokenise, end]))


def undone(text: str, detokenise: str) -> str:
    """The text line by line without WikiText's marks, where they are to be undone; <unk> stays as it is."""
    return "\n".join(map(_line_undone, text.split("\n"))) if detokenise == "wikitext" else text


def _line_undone(line: str) -> str:
    line = line.strip()
    if head := _SECTION.fullmatch(line):  # = = Career = = is == Career ==
        line = f"{head[1].replace(' ', '')} {head[2]} {head[3].replace(' ', '')}"
    return detokenised(line, unknown="<unk>")


def _embedded_text(task: TaskConfig, source: SourceConfig) -> LoadedText:
    """The micro-world's documents, the sentences of each joined by spaces."""
    embedded_name(task)
    text = load_documents(source)
    if missing := [split for split in task.splits if split not in text.splits]:
        raise DataError(f"the micro-world's text has no split {missing[0]}; it has {', '.join(text.splits)}")
    splits = {split: [[" ".join(document)] for document in text.splits[split]] for split in ("train", *task.splits)}
    return LoadedText(splits, content_hash([split, document] for split in splits for document in splits[split]))


def _local_splits(task: TaskConfig, source: SourceConfig) -> dict[str, _Split]:
    """The files of each split; without one for what is evaluated, a test's or validation's, else the last lines.

    A test's text is the split `test`, whatever the task asks for: nobody may take it for a validation.
    """
    if task.name.rpartition("/")[2] in RUNNING_TEXT:
        raise DataError(f"{task.name} is the micro-world's text", "task=lm/text reads a folder of text")
    folder = running_text_folder(task, text_folder(source))
    files = split_text_files(folder)
    if not files["train"]:
        raise DataError(
            f"{folder} has no text to train on: looked for train and others with {', '.join(ENDINGS)}; "
            f"there is {listing(folder)}",
            "source.root=DIR, a folder of text",
        )
    splits = {"train": _Split(files["train"], partial(_file_lines, files["train"]))}
    missing = [split for split in task.splits if not files.get(split)]
    published = len(task.splits) > 1 or bool(task.repo)  # such a split is not to be made of something else
    instead = [] if published else [split for split in ("validation", "test") if files[split]][:1]
    if not missing or instead:
        evaluated = instead if missing else task.splits
        return splits | {split: _Split(files[split], partial(_file_lines, files[split])) for split in evaluated}
    if published:
        looked = " or ".join(NAMES.get(missing[0], (missing[0],)))
        raise DataError(
            f"{folder} has no file for {missing[0]}: looked for {looked} with {', '.join(ENDINGS)}; "
            f"there is {listing(folder)}"
        )
    every = partial(_file_lines, files["train"])
    count = sum(line is not None for line in every())
    kept = count - max(1, count // HELD_OUT_SHARE)
    if kept < 1:
        raise DataError(f"{folder} has {count} lines of text: too few to hold some out", "put a validation.txt there")
    return {
        "train": _Split(files["train"], lambda: _between(every(), 0, kept)),
        missing[0]: _Split(files["train"], lambda: _between(every(), kept, count)),
    }


def running_text_folder(task: TaskConfig, root: Path) -> Path:
    """The task's folder in root, root itself where that has text, or the task's folder beside it."""
    if has_folder(root, task):
        return task_folder(root, task)
    if any(path.suffix.lower() in ENDINGS for path in root.rglob("*")) and not task.repo:
        return root
    if task.repo and split_text_files(root).get("train") and any(split_text_files(root).get(s) for s in task.splits):
        return root  # the folder of the task itself
    beside = root.absolute().parent
    return task_folder(beside if has_folder(beside, task) else root, task)


def split_text_files(folder: Path) -> dict[str, list[Path]]:
    """The text files of a folder and of those in it, by split: one is told by the file's name or the folder's.

    Where none is called train, all that are neither for validation nor test are to train on.
    """
    found: dict[str, list[Path]] = {"train": [], "validation": [], "test": [], "": []}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix.lower() not in ENDINGS or not path.is_file() or any(part.startswith(".") for part in parts):
            continue
        names = (squeezed(path.stem), *(squeezed(part) for part in parts[:-1]))
        split = next((split for split, known in NAMES.items() if any(name in known for name in names)), "")
        found[split].append(path)
    others = found.pop("")
    return {**found, "train": found["train"] or others}


def cut_documents(lines: Lines) -> Iterator[Document]:
    """One document a file or row, or an article of WikiText; what is longer than LONGEST is cut after a line."""
    document: list[str] = []
    size, before = 0, ""

    def whole() -> Iterator[Document]:
        if any(document):
            yield ["\n".join(document)]

    for line, after in pairwise(chain(lines, [None])):
        if line is None:
            yield from whole()
            document, size, before = [], 0, ""
            continue
        if (any(document) and is_title(before, line, after or "")) or size > LONGEST:
            yield from whole()
            document, size = [], 0
        document.append(line)
        size, before = size + len(line), line
    yield from whole()


def _file_lines(paths: Iterable[Path]) -> Lines:
    """Lines as they are, but for those of white space alone, which are empty (as on the hub)."""
    for path in paths:
        yield from (line if line.strip() else "" for _, line in numbered_lines(path))
        yield None


def _hub_lines(paths: Iterable[Path]) -> Lines:
    """Rows are lines where titles are among them (WikiText), else documents."""
    rows = chain.from_iterable(map(row_texts, paths))
    first = list(islice(rows, LOOKED_AT))
    stripped = [row.strip() for row in first]
    around = zip(["", *stripped], stripped, [*stripped[1:], ""], strict=False)
    of_lines = any(is_title(*three) for three in around)
    for row in chain(first, rows):
        yield from (line if line.strip() else "" for line in row.removesuffix("\n").split("\n"))
        if not of_lines:
            yield None


def _between(lines: Lines, start: int, stop: int) -> Lines:
    """The lines from one number to another; ends of files are not counted."""
    number = 0
    for line in lines:
        if start <= number < stop:
            yield line
        number += line is not None


def _first_documents(lines: Callable[[], Lines], count: int) -> Iterator[Document]:
    return islice(cut_documents(lines()), count)


def _survey(task: TaskConfig, splits: Mapping[str, _Split], limit: int) -> dict[str, Any]:
    """Documents of each split and the hash of all, in one reading; of those to train on at most `limit` are taken."""
    rows, content, available = dict.fromkeys(splits, 0), ContentHash(), 0
    content.add(FORMAT)
    for split, unread in splits.items():
        for document in cut_documents(unread.lines()):
            available += split == "train"
            if split == "train" and rows[split] == limit:
                continue
            rows[split] += 1
            content.add([split, document])
        if not rows[split]:
            raise DataError(f"{task.name}: the text of {split} is empty: {', '.join(map(str, unread.files))}")
    return {"rows": rows, "train": available, "content_hash": content.hexdigest()}
