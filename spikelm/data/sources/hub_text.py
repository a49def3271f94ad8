"""Pretraining text from the hub: articles, or single sentences in a row, as documents in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from spikelm.config.source import HubText, SourceConfig
from spikelm.data.sources.hub import hub_files, hub_rows
from spikelm.data.sources.streams import Document, chunks, in_turns
from spikelm.data.sources.text_files import plain_sentences
from spikelm.errors import DataError

COLUMN = "text"
SENTENCES = 100  # of a document, where rows are sentences and nothing says where a book ends
HELD_OUT_EVERY = 20  # documents: a stream has no last twentieth before its end
HELD_OUT_MOST = 10_000


def text_repositories(source: SourceConfig) -> list[HubText]:
    """The repositories that the text is taken from."""
    if not source.text:
        raise DataError("source=hub has no pretraining text", "source.text=[{repo: OWNER/NAME, config: NAME}]")
    return source.text


def repository_files(source: SourceConfig) -> list[list[Path]]:
    """The files of each repository."""
    return [
        hub_files(text.repo, text.config, (text.split,), text.revision, source.mirror)[text.split]
        for text in text_repositories(source)
    ]


def labelled_documents(source: SourceConfig, files: Sequence[Sequence[Path]]) -> Iterator[tuple[str, Document]]:
    """At most source.documents documents of all repositories in turns, each with its split: every 20th is held out."""
    repositories = zip(text_repositories(source), files, strict=True)
    documents = in_turns([read_repository(text, paths) for text, paths in repositories])
    for index, document in enumerate(islice(documents, source.documents)):
        yield "validation" if held_out(index) else "train", document


def held_out(index: int) -> bool:
    """Whether a document, by its place in the stream, is for validation."""
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 and index < HELD_OUT_EVERY * HELD_OUT_MOST


def read_repository(text: HubText, paths: Sequence[Path]) -> Iterator[Document]:
    """A document a row, its lines being paragraphs; or, where rows are sentences, SENTENCES rows in a row."""
    texts = chain.from_iterable(map(_texts, paths))
    if text.rows == "sentences":
        return chunks((line for row in texts if (line := " ".join(row.split()))), SENTENCES)
    return (document for row in texts if (document := _article(row)))


def _article(text: str) -> Document:
    return [sentence for line in text.split("\n") if line.strip() for sentence in plain_sentences(line.strip())]


def _texts(path: Path) -> Iterator[str]:
    for index, row in enumerate(hub_rows(path)):
        text = row.get(COLUMN)
        if not isinstance(text, str):
            there = f"{COLUMN} is {text!r}" if COLUMN in row else f"no column {COLUMN!r}; there is {', '.join(row)}"
            raise DataError(f"{path} row {index}: {there}, expected text in {COLUMN!r}")
        yield text
