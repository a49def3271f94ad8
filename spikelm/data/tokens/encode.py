"""Text to token ids: labelled rows and text pairs as flat arrays, documents as arrays of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.streams import chunks
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer

UNLABELLED = -100  # torch's ignored class
CHUNK = 1000  # text pairs tokenised at a time: what the tokenizer notes on each token is many times its id


@dataclass(frozen=True)
class EncodedRows:
    """Token ids and segment ids of all rows end to end; row i spans offsets[i] to offsets[i+1]."""

    ids: np.ndarray
    types: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def row(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        span = slice(self.offsets[index], self.offsets[index + 1])
        return self.ids[span], self.types[span]


def encode_rows(task: TaskConfig, rows: Sequence[dict[str, Any]], tokenizer: Tokenizer, max_length: int) -> EncodedRows:
    """[CLS] a [SEP] (b [SEP]), cut to max_length from the longer side."""
    texts = [[row[column] for column in task.columns] for row in rows]
    kind = np.float32 if task.kind == "regression" else np.int64
    return _encoded(texts, np.asarray([row["label"] for row in rows], kind), tokenizer, max_length)


def with_unlabelled(
    data: EncodedRows, texts: Sequence[Sequence[str]], tokenizer: Tokenizer, max_length: int
) -> EncodedRows:
    """The rows and behind them texts without a label: -100, and for a regression not-a-number."""
    fill = np.nan if data.labels.dtype.kind == "f" else UNLABELLED
    more = _encoded(texts, np.full(len(texts), fill, data.labels.dtype), tokenizer, max_length)
    return EncodedRows(
        ids=np.concatenate([data.ids, more.ids]),
        types=np.concatenate([data.types, more.types]),
        offsets=np.concatenate([data.offsets, data.offsets[-1] + more.offsets[1:]]),
        labels=np.concatenate([data.labels, more.labels]),
    )


def _encoded(texts: Sequence[Sequence[str]], labels: np.ndarray, tokenizer: Tokenizer, max_length: int) -> EncodedRows:
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    tokenizer.no_padding()
    encodings = tokenizer.encode_batch([tuple(text) if len(text) > 1 else text[0] for text in texts])
    return EncodedRows(
        ids=np.concatenate([np.asarray(encoding.ids, np.int32) for encoding in encodings]),
        types=np.concatenate([np.asarray(encoding.type_ids, np.int8) for encoding in encodings]),
        offsets=np.concatenate([[0], np.cumsum([len(encoding.ids) for encoding in encodings])]),
        labels=labels,
    )


@dataclass(frozen=True)
class EncodedTextPairs:
    """Ids of all sources end to end, and of all targets; row i spans offsets[i] to offsets[i+1] of either."""

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    @property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of source and target together."""
        lengths: np.ndarray = np.diff(self.source_offsets) + np.diff(self.target_offsets)
        return lengths

    def source(self, index: int) -> np.ndarray:
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index: int) -> np.ndarray:
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]


#: of a task that is only evaluated
NO_TEXT_PAIRS = EncodedTextPairs(*(np.zeros(size, np.int32) for size in (0, 1, 0, 1)))


def encode_text_pairs(
    task: TaskConfig, rows: Sequence[Mapping[str, Any]], tokenizer: TextPairTokenizer
) -> EncodedTextPairs:
    """Each source and target in its frame, cut to the task's lengths."""
    source_column, target_column = task.columns
    sources: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for chunk in chunks(rows, CHUNK):
        encoded_sources = tokenizer.encode_sources([row[source_column] for row in chunk], task.source_length)
        encoded_targets = tokenizer.encode_targets([row[target_column] for row in chunk], task.target_length)
        sources += [np.asarray(ids, np.int32) for ids in encoded_sources]
        targets += [np.asarray(ids, np.int32) for ids in encoded_targets]
    return EncodedTextPairs(np.concatenate(sources), _offsets(sources), np.concatenate(targets), _offsets(targets))


def _offsets(rows: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(ids) for ids in rows])])


def encode_documents(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[np.ndarray]]:
    """Every sentence of every document as ids, without special tokens."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    flat = [sentence for document in documents for sentence in document]
    encoded = iter(tokenizer.encode_batch(flat, add_special_tokens=False))
    return [[np.asarray(next(encoded).ids, np.int32) for _ in document] for document in documents]
