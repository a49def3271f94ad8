"""Pretraining text tokenised before any run needs it, by several processes, and resumable.

The reader (this process) streams the documents in the order of their content hash, hashes them, and hands shards of
them to a pool. It writes what comes back in the same order to the arrays that a run will map. After an interruption
the text is read and hashed again, which is quick, and the shards that are written are not tokenised again.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock
from tokenizers import Tokenizer

from spikelm import __version__
from spikelm.config.settings.source import SourceConfig
from spikelm.data.sources.documents import Survey, TextFiles
from spikelm.data.sources.streams import Document
from spikelm.data.sources.unlabelled_rows import hash_with_rows, task_row_documents
from spikelm.data.tokens.cache import documents_folder, tokenizer_hash
from spikelm.data.tokens.manifest import (
    FORMAT,
    MANIFEST,
    Counts,
    InputFile,
    Manifest,
    PreparedSettings,
    PreparedSplit,
    Shard,
    read_manifest,
    write_manifest,
)
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.pool import TokenizerPool
from spikelm.data.tokens.shards import (
    JOURNAL,
    Journal,
    after,
    damaged_shards,
    finish_arrays,
    heads_are_whole,
    write_part,
)
from spikelm.errors import DataError
from spikelm.machine.disk import disk_errors
from spikelm.store.checksums import damaged_in, seal_folder, whole_folder
from spikelm.store.file_facts import cached_file_hash, place_of, remember
from spikelm.store.hashing import digest

SHARD = 4_000_000  # characters of text, about: enough to keep a process busy for a second or two
SPLITS = ("train", "validation")
Labelled = tuple[str, Document]  # the split of a document, and the document
Report = Callable[[int, int], None]  # hears of documents and characters that are done


@dataclass(frozen=True)
class Preparation:
    """A text to prepare with a tokenizer, and where the work lies."""

    source: SourceConfig
    text: TextFiles
    tokenizer: Tokenizer
    cache: Path
    task_rows: int = 0

    @property
    def settings(self) -> PreparedSettings:
        repositories = [asdict(text) for text in self.source.text or []]
        return PreparedSettings(self.source.name, self.source.documents, self.task_rows, repositories, SHARD)

    @cached_property
    def folder(self) -> Path:
        """The work of these files as they are now, with these settings and this tokenizer."""
        files = place_of(self.cache, self.text.files, {**asdict(self.settings), "format": FORMAT}).name
        return self.cache / "prepared" / digest([files, tokenizer_hash(self.tokenizer)])

    def parts(self) -> dict[str, Path]:
        """The folders of the arrays while they grow."""
        return {split: self.folder / split for split in SPLITS}

    def finished_parts(self, manifest: Manifest) -> dict[str, Path]:
        """The folders where runs look for the arrays."""
        return {split: self.cache / "encoded" / entry.folder for split, entry in manifest.splits.items()}

    def rows(self) -> list[Document]:
        """Rows of tasks behind the training text."""
        return task_row_documents(self.source, self.task_rows) if self.task_rows else []


def prepare_text(preparation: Preparation, workers: int, report: Report) -> Manifest:
    """Tokenise what is not tokenised yet, so that a run finds all of it; the record of the whole."""
    folder = preparation.folder
    with disk_errors(preparation.cache):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if (manifest := _moved(preparation)) is not None:
                damaged = damage(preparation, manifest)
                if damaged.shards:
                    _repair(preparation, manifest, damaged.shards, workers, report)
                if damaged:
                    _seal(preparation, manifest)
                return manifest
            _make(preparation, workers, report)
            manifest = _moved(preparation)
            assert manifest is not None, "just made"
            return manifest


@dataclass(frozen=True)
class Damage:
    """What of a prepared text is not as it was written: shards by number, and folders whose heads or lengths are."""

    shards: list[int]
    folders: list[Path]

    def __bool__(self) -> bool:
        return bool(self.shards or self.folders)


def damage(preparation: Preparation, manifest: Manifest) -> Damage:
    """Compare every shard with the record; nothing is changed."""
    parts = preparation.finished_parts(manifest)
    shards = list(damaged_shards(parts, manifest.shards))
    heads = [
        folder
        for split, folder in parts.items()
        if not heads_are_whole(folder, manifest.splits[split].counts) or (not shards and damaged_in(folder))
    ]
    return Damage(shards, heads)


def finished(preparation: Preparation) -> Manifest | None:
    """The record of a text that is prepared; None where it is not, or not yet; nothing is changed."""
    manifest = read_manifest(preparation.folder)
    if manifest is None or not all(folder.is_dir() for folder in preparation.finished_parts(manifest).values()):
        return None
    return manifest


def _make(preparation: Preparation, workers: int, report: Report) -> None:
    """Tokenise from the last whole shard on, and write the record."""
    journal, parts = Journal(preparation.folder), preparation.parts()
    for folder in parts.values():
        folder.mkdir(exist_ok=True)
    (preparation.folder / MANIFEST).unlink(missing_ok=True)
    shards = journal.read()
    shards = shards[: next(damaged_shards(parts, shards), len(shards))]
    journal.keep(shards)
    before = dict.fromkeys(SPLITS, Counts())
    for shard in shards:
        before = after(before, shard)

    def keep(number: int, packed: dict[str, PackedDocuments]) -> None:
        nonlocal before
        shard = {split: write_part(parts[split], before[split], arrays) for split, arrays in packed.items()}
        journal.add(shard)
        shards.append(shard)
        before = after(before, shard)

    done = len(shards)
    with TokenizerPool(preparation.tokenizer, workers) as pool:
        rows = preparation.rows()
        survey = _go_through(preparation, rows, pool, lambda number: number >= done, keep, report)
    remember(preparation.text.place, survey)
    content = hash_with_rows(survey["content_hash"], rows) if rows else survey["content_hash"]
    write_manifest(preparation.folder, _manifest(preparation, content, shards, before))


@dataclass(frozen=True)
class _Waiting:
    """A shard in the hands of the pool."""

    number: int
    documents: int
    characters: int
    packed: Future[dict[str, PackedDocuments]]


def _go_through(
    preparation: Preparation,
    rows: list[Document],
    pool: TokenizerPool,
    wanted: Callable[[int], bool],
    keep: Callable[[int, dict[str, PackedDocuments]], None],
    report: Report,
) -> dict[str, Any]:
    """Read and hash all of the text once, tokenise the shards that are wanted and keep them in order; the survey."""
    survey = Survey()
    waiting: deque[_Waiting] = deque()

    def keep_oldest() -> None:
        oldest = waiting.popleft()
        keep(oldest.number, oldest.packed.result())
        report(oldest.documents, oldest.characters)

    def surveyed() -> Iterator[Labelled]:
        for split, document in preparation.text.labelled():
            survey.add(split, document)
            yield split, document

    number = 0
    for items in (surveyed(), (("train", row) for row in rows)):
        for shard, characters in in_shards(items):
            if wanted(number):
                waiting.append(_Waiting(number, len(shard), characters, pool.submit(_by_split(shard))))
            else:
                report(len(shard), characters)
            while len(waiting) > pool.ahead or (waiting and waiting[0].packed.done()):
                keep_oldest()
            number += 1
    while waiting:
        keep_oldest()
    return survey.outcome()


def in_shards(items: Iterable[Labelled]) -> Iterator[tuple[list[Labelled], int]]:
    """Documents in order, in lists of about SHARD characters, each with the number of its characters."""
    shard: list[Labelled] = []
    characters = 0
    for split, document in items:
        shard.append((split, document))
        characters += sum(map(len, document))
        if characters >= SHARD:
            yield shard, characters
            shard, characters = [], 0
    if shard:
        yield shard, characters


def _by_split(shard: list[Labelled]) -> dict[str, list[Document]]:
    by_split: dict[str, list[Document]] = {}
    for split, document in shard:
        by_split.setdefault(split, []).append(document)
    return by_split


def _manifest(preparation: Preparation, content: str, shards: list[Shard], total: dict[str, Counts]) -> Manifest:
    tokenizer, paths = preparation.tokenizer, [path for group in preparation.text.files for path in group]
    root = os.path.commonpath([path.absolute().parent for path in paths])
    inputs = [
        InputFile(
            str(path.absolute().relative_to(root)), path.stat().st_size, cached_file_hash(path, preparation.cache)
        )
        for path in paths
    ]
    folders = {split: documents_folder(preparation.cache, content, split, tokenizer).name for split in SPLITS}
    return Manifest(
        format=FORMAT,
        spikelm=__version__,
        settings=preparation.settings,
        tokenizer_sha256=tokenizer_hash(tokenizer),
        vocabulary=tokenizer.get_vocab_size(),
        content_hash=content,
        inputs=inputs,
        splits={split: PreparedSplit(folders[split], total[split]) for split in SPLITS},
        shards=shards,
    )


def _moved(preparation: Preparation) -> Manifest | None:
    """Move whole arrays to where runs look for them, which a kill may have left to do; None where they are not made."""
    manifest = read_manifest(preparation.folder)
    if manifest is None:
        return None
    places = preparation.finished_parts(manifest)
    for split, made in preparation.parts().items():
        if made.is_dir():
            finish_arrays(made, manifest.splits[split].counts)
            seal_folder(made)
            places[split].parent.mkdir(parents=True, exist_ok=True)
            if whole_folder(places[split]):  # a run has made the same meanwhile
                shutil.rmtree(made)
            else:
                made.rename(places[split])
    (preparation.folder / JOURNAL).unlink(missing_ok=True)
    return finished(preparation)


def _repair(preparation: Preparation, manifest: Manifest, numbers: list[int], workers: int, report: Report) -> None:
    """Tokenise damaged shards again and put them in their places."""
    parts, shards = preparation.finished_parts(manifest), manifest.shards
    before = [dict.fromkeys(SPLITS, Counts())]
    for shard in shards:
        before.append(after(before[-1], shard))

    def keep(number: int, packed: dict[str, PackedDocuments]) -> None:
        for split, arrays in packed.items():
            part = write_part(parts[split], before[number][split], arrays)
            if part != shards[number].get(split):
                what = f"shard {number} of {preparation.folder / MANIFEST} is another now: the text has changed"
                raise DataError(what, f"remove {preparation.folder} and run the same command again")

    with TokenizerPool(preparation.tokenizer, workers) as pool:
        _go_through(preparation, preparation.rows(), pool, set(numbers).__contains__, keep, report)


def _seal(preparation: Preparation, manifest: Manifest) -> None:
    """Heads and checksums of arrays whose shards are whole."""
    for split, folder in preparation.finished_parts(manifest).items():
        finish_arrays(folder, manifest.splits[split].counts)
        seal_folder(folder)
