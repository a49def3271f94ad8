"""Pretraining text of a source: streams of documents with their numbers and the hash of their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache as made_once
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.data import microworld
from spikelm.data.sources.hub import (
    HELD_OUT_EVERY,
    Origin,
    cached_repository_files,
    expected_documents,
    labelled_documents,
    repository_files,
    text_origin,
)
from spikelm.data.sources.loaded import ContentHash, LoadedText, content_hash
from spikelm.data.sources.streams import Document, Documents
from spikelm.data.sources.task_files import local_root
from spikelm.data.sources.text_files import count_documents, local_documents, text_files
from spikelm.data.sources.unlabelled_rows import unlabelled_row_files, with_task_rows
from spikelm.errors import DataError
from spikelm.store.file_facts import place_of, recall, remember


@dataclass(frozen=True)
class TextFiles:
    """Pretraining text in files, not read yet."""

    files: list[list[Path]]
    place: Path | None  # where its survey is kept
    labelled: Callable[[], Iterator[tuple[str, Document]]]  # every document with its split, in the order of the hash
    splits: Callable[[Mapping[str, int]], dict[str, Documents]]  # streams of so many documents
    count: Callable[[], int | None]  # of the documents, about; None where nothing tells
    read_from: Origin = field(default_factory=lambda: Origin({}))  # the commits of the hub

    def load(self) -> LoadedText:
        """Surveyed, unless that was done before."""
        survey = recall(self.place) or remember(self.place, _survey(self.labelled()))
        splits, warnings = dict(self.splits(survey["rows"])), self.read_from.warnings
        return LoadedText(splits, survey["content_hash"], warnings, commits=self.read_from.commits)


class Survey:
    """Documents of each split, counted and hashed as they come."""

    def __init__(self) -> None:
        self.rows = {"train": 0, "validation": 0}
        self._content = ContentHash()

    def add(self, split: str, document: Document) -> None:
        self.rows[split] += 1
        self._content.add([split, document])

    def outcome(self) -> dict[str, Any]:
        """What is kept of it."""
        if min(self.rows.values()) < 2:
            enough = 2 * HELD_OUT_EVERY
            what = f"the hub's text has {sum(self.rows.values())} documents, expected at least {enough}"
            raise DataError(what, f"source.documents={enough} or more, of more rows")
        return {"rows": self.rows, "content_hash": self._content.hexdigest()}


def load_documents(source: SourceConfig, cache: Path | None = None, task_rows: int | None = None) -> LoadedText:
    """Documents as lists of sentences, by split; files are surveyed once and streamed ever after.

    With `task_rows`, so many training rows of each GLUE task behind them.
    """
    if source.name == "embedded":
        text = _embedded_text(source)
    else:
        text = source_files(source, cache).load()
    return with_task_rows(text, source, task_rows) if task_rows else text


def documents_hash(source: SourceConfig, cache: Path, task_rows: int | None = None) -> str:
    """The content hash of the pretraining text, from the cache when its files have not changed."""
    if source.name != "local" or not task_rows:
        return load_documents(source, cache, task_rows).content_hash
    rows, settings = unlabelled_row_files(source, task_rows)
    files = [*text_files(text_folder(source)).values(), *rows]
    place = place_of(cache, files, {"documents": source.documents, **settings})
    return recall(place) or remember(place, load_documents(source, cache, task_rows).content_hash)


def text_folder(source: SourceConfig) -> Path:
    """The folder of the local pretraining text."""
    return Path(source.text_root) if source.text_root else local_root(source)


def _embedded_text(source: SourceConfig) -> LoadedText:
    documents = microworld.documents(source.documents, seed=source.seed)
    held_out = max(1, len(documents) // 20)
    return LoadedText({"train": documents[:-held_out], "validation": documents[-held_out:]}, content_hash(documents))


def source_files(source: SourceConfig, cache: Path | None) -> TextFiles:
    """The files of the pretraining text of a source that has files; those of the hub are fetched."""
    if source.name == "local":
        return _local_files(source, cache)
    return _hub_files(source, cache, repository_files(source))


def files_at_hand(source: SourceConfig, cache: Path) -> TextFiles | None:
    """The same without a network; None where the hub's files are not all on this machine."""
    if source.name == "local":
        return _local_files(source, cache)
    files = cached_repository_files(source)
    return None if files is None else _hub_files(source, cache, files)


def _local_files(source: SourceConfig, cache: Path | None) -> TextFiles:
    files = text_files(text_folder(source))
    counts = made_once(partial(count_documents, files, source.documents))

    def labelled() -> Iterator[tuple[str, Document]]:
        splits = local_documents(files, counts())
        return ((split, document) for split in splits for document in splits[split])

    return TextFiles(
        files=list(files.values()),
        place=place_of(cache, files.values(), {"survey": True, "documents": source.documents}) if cache else None,
        labelled=labelled,
        splits=partial(local_documents, files),
        count=lambda: sum(counts().values()),
    )


def _hub_files(source: SourceConfig, cache: Path | None, files: list[list[Path]]) -> TextFiles:
    source = replace(source)  # read by the streams later, whatever becomes of the caller's
    settings = {"survey": True, "documents": source.documents, "rows": [text.rows for text in source.text or []]}

    def documents(split: str, count: int) -> Iterator[Document]:
        labelled = labelled_documents(source, files)
        # Counted, not read to the end: the last held-out document comes early in a large corpus.
        return islice((document for label, document in labelled if label == split), count)

    def splits(rows: Mapping[str, int]) -> dict[str, Documents]:
        return {split: Documents(partial(documents, split, count), count) for split, count in rows.items()}

    return TextFiles(
        files=files,
        place=place_of(cache, files, settings) if cache else None,
        labelled=partial(labelled_documents, source, files),
        splits=splits,
        count=partial(expected_documents, source, files),
        read_from=text_origin(source, files),
    )


def _survey(labelled: Iterator[tuple[str, Document]]) -> dict[str, Any]:
    """Documents of each split and the hash of all, in one reading."""
    survey = Survey()
    for split, document in labelled:
        survey.add(split, document)
    return survey.outcome()
