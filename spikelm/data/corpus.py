"""Pretraining text of a source: streams of documents with their numbers and the hash of their content."""

from __future__ import annotations

from pathlib import Path

from spikelm.data import microworld
from spikelm.data.remembered import place_of, recall, remember
from spikelm.data.sources import Text, content_hash, local_root
from spikelm.data.text_files import count_documents, local_documents, text_files
from spikelm.errors import DataError
from spikelm.schema import SourceConfig


def load_documents(source: SourceConfig, cache: Path | None = None) -> Text:
    """Documents as lists of sentences, by split; files are surveyed once and streamed ever after."""
    if source.name == "embedded":
        return _embedded(source)
    if source.name == "local":
        return _local(source, cache)
    raise DataError(
        f"source={source.name} has no pretraining text yet",
        "pretrain on the embedded text, source=embedded, or on files, source=local source.root=DIR",
    )


def documents_hash(source: SourceConfig, cache: Path) -> str:
    """The content hash of the pretraining text, from the cache when its files have not changed."""
    return load_documents(source, cache).content_hash


def text_folder(source: SourceConfig) -> Path:
    """The folder of the local pretraining text."""
    return Path(source.text_root) if source.text_root else local_root(source)


def _embedded(source: SourceConfig) -> Text:
    documents = microworld.documents(source.documents, seed=source.seed)
    held_out = max(1, len(documents) // 20)
    return Text({"train": documents[:-held_out], "validation": documents[-held_out:]}, content_hash(documents))


def _local(source: SourceConfig, cache: Path | None) -> Text:
    files = text_files(text_folder(source))
    place = place_of(cache, files.values(), {"survey": True, "documents": source.documents}) if cache else None
    known = recall(place)
    counts = known["rows"] if known else count_documents(files, source.documents)
    splits = local_documents(files, counts)
    if known is None:
        found = content_hash([split, document] for split in splits for document in splits[split])
        known = remember(place, {"rows": counts, "content_hash": found})
    return Text(dict(splits), known["content_hash"])
