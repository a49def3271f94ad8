"""Pretraining text of a source: streams of documents with their numbers and the hash of their content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from spikelm.config.settings.source import SourceConfig
from spikelm.data import microworld
from spikelm.data.sources.hub import HELD_OUT_EVERY, labelled_documents, repository_files
from spikelm.data.sources.loaded import LoadedText, content_hash
from spikelm.data.sources.streams import Document, Documents
from spikelm.data.sources.task_files import local_root
from spikelm.data.sources.text_files import count_documents, local_documents, text_files
from spikelm.data.sources.unlabelled_rows import unlabelled_row_files, with_task_rows
from spikelm.errors import DataError
from spikelm.store.file_facts import place_of, recall, remember


def load_documents(source: SourceConfig, cache: Path | None = None, task_rows: int | None = None) -> LoadedText:
    """Documents as lists of sentences, by split; files are surveyed once and streamed ever after.

    With `task_rows`, so many training rows of each GLUE task behind them.
    """
    if source.name == "embedded":
        text = _embedded_text(source)
    else:
        text = _local_text(source, cache) if source.name == "local" else _hub_text(source, cache)
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


def _local_text(source: SourceConfig, cache: Path | None) -> LoadedText:
    files = text_files(text_folder(source))
    place = place_of(cache, files.values(), {"survey": True, "documents": source.documents}) if cache else None
    survey = recall(place)
    counts = survey["rows"] if survey else count_documents(files, source.documents)
    splits = local_documents(files, counts)
    if survey is None:
        content = content_hash([split, document] for split in splits for document in splits[split])
        survey = remember(place, {"rows": counts, "content_hash": content})
    return LoadedText(dict(splits), survey["content_hash"])


def _hub_text(source: SourceConfig, cache: Path | None) -> LoadedText:
    source = replace(source)  # read by the streams later, whatever becomes of the caller's
    files = repository_files(source)
    settings = {"survey": True, "documents": source.documents, "rows": [text.rows for text in source.text or []]}
    place = place_of(cache, files, settings) if cache else None
    survey = recall(place) or remember(place, _survey(labelled_documents(source, files)))

    def documents(split: str) -> Iterator[Document]:
        labelled = labelled_documents(source, files)
        # Counted, not read to the end: the last held-out document comes early in a large corpus.
        return islice((document for label, document in labelled if label == split), survey["rows"][split])

    streams = {split: Documents(partial(documents, split), count) for split, count in survey["rows"].items()}
    return LoadedText(dict(streams), survey["content_hash"])


def _survey(labelled: Iterator[tuple[str, Document]]) -> dict[str, Any]:
    """Documents of each split and the hash of all, in one reading."""
    rows = {"train": 0, "validation": 0}

    def counted() -> Iterator[tuple[str, Document]]:
        for split, document in labelled:
            rows[split] += 1
            yield split, document

    content = content_hash(counted())
    if min(rows.values()) < 2:
        enough = 2 * HELD_OUT_EVERY
        what = f"the hub's text has {sum(rows.values())} documents, expected at least {enough}"
        raise DataError(what, f"source.documents={enough} or more, of more rows")
    return {"rows": rows, "content_hash": content}
