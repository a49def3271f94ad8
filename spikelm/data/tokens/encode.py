"""Text to token ids: rows as flat arrays, documents as arrays of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from spikelm.config.task import TaskConfig

UNLABELLED = -100  # torch's ignored class


@dataclass(frozen=True)
class Encoded:
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


def encode_rows(task: TaskConfig, rows: Sequence[dict[str, Any]], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """[CLS] a [SEP] (b [SEP]), cut to max_length from the longer side."""
    texts = [[row[column] for column in task.columns] for row in rows]
    kind = np.float32 if task.kind == "regression" else np.int64
    return _encoded(texts, np.asarray([row["label"] for row in rows], kind), tokenizer, max_length)


def with_unlabelled(data: Encoded, texts: Sequence[Sequence[str]], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """The rows and behind them texts without a label: -100, and for a regression not-a-number."""
    fill = np.nan if data.labels.dtype.kind == "f" else UNLABELLED
    more = _encoded(texts, np.full(len(texts), fill, data.labels.dtype), tokenizer, max_length)
    return Encoded(
        ids=np.concatenate([data.ids, more.ids]),
        types=np.concatenate([data.types, more.types]),
        offsets=np.concatenate([data.offsets, data.offsets[-1] + more.offsets[1:]]),
        labels=np.concatenate([data.labels, more.labels]),
    )


def _encoded(texts: Sequence[Sequence[str]], labels: np.ndarray, tokenizer: Tokenizer, max_length: int) -> Encoded:
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    tokenizer.no_padding()
    encodings = tokenizer.encode_batch([tuple(text) if len(text) > 1 else text[0] for text in texts])
    return Encoded(
        ids=np.concatenate([np.asarray(encoding.ids, np.int32) for encoding in encodings]),
        types=np.concatenate([np.asarray(encoding.type_ids, np.int8) for encoding in encodings]),
        offsets=np.concatenate([[0], np.cumsum([len(encoding.ids) for encoding in encodings])]),
        labels=labels,
    )


def encode_documents(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[np.ndarray]]:
    """Every sentence of every document as ids, without special tokens."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    flat = [sentence for document in documents for sentence in document]
    encoded = iter(tokenizer.encode_batch(flat, add_special_tokens=False))
    return [[np.asarray(next(encoded).ids, np.int32) for _ in document] for document in documents]
