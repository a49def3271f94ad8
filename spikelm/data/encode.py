"""Text to token ids: the tokenizer of a source, and rows as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from tokenizers import Tokenizer

from spikelm.data import microworld
from spikelm.data.wordpiece import train_wordpiece
from spikelm.errors import DataError
from spikelm.schema import BackboneConfig, SourceConfig, TaskConfig

TOKENIZER_DOCUMENTS = 1500  # enough for every word of the micro-world; independent of how much is trained on


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


def load_tokenizer(source: SourceConfig, backbone: BackboneConfig, cache: Path) -> Tokenizer:
    """The embedded WordPiece (trained once, cached), or bert-base-uncased's from the hub."""
    if source.name == "embedded":
        name = f"wordpiece-v{microworld.VERSION}-seed{source.seed}-{backbone.vocab}.json"
        path = cache / name
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):
            if not path.exists():
                texts = (text for doc in microworld.documents(TOKENIZER_DOCUMENTS, source.seed) for text in doc)
                tokenizer = train_wordpiece(texts, backbone.vocab)
                temporary = path.with_suffix(".tmp")
                tokenizer.save(str(temporary))
                temporary.replace(path)
        return Tokenizer.from_file(str(path))
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained("google-bert/bert-base-uncased").backend_tokenizer
    except OSError as error:
        raise DataError(
            f"the tokenizer bert-base-uncased could not be loaded: {str(error).splitlines()[0]}",
            "check the network or HF_HUB_OFFLINE, or use source=embedded",
        ) from error


def encode_rows(task: TaskConfig, rows: Sequence[dict[str, Any]], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """[CLS] a [SEP] (b [SEP]), cut to max_length from the longer side."""
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    tokenizer.no_padding()
    texts = [tuple(row[column] for column in task.columns) for row in rows]
    encodings = tokenizer.encode_batch([text if len(text) > 1 else text[0] for text in texts])
    lengths = [len(encoding.ids) for encoding in encodings]
    kind = np.float32 if task.kind == "regression" else np.int64
    return Encoded(
        ids=np.concatenate([np.asarray(encoding.ids, np.int32) for encoding in encodings]),
        types=np.concatenate([np.asarray(encoding.type_ids, np.int8) for encoding in encodings]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        labels=np.asarray([row["label"] for row in rows], kind),
    )


def encode_documents(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[list[np.ndarray]]:
    """Every sentence of every document as ids, without special tokens."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    flat = [sentence for document in documents for sentence in document]
    encoded = iter(tokenizer.encode_batch(flat, add_special_tokens=False))
    return [[np.asarray(next(encoded).ids, np.int32) for _ in document] for document in documents]
