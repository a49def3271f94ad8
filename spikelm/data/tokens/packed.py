"""Tokenised documents end to end in flat arrays, written as they come and mapped from disk: no size is too large."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

DTYPES: dict[str, type[np.generic]] = {"ids": np.int32, "sentences": np.int64, "documents": np.int64}
NAMES = tuple(DTYPES)


@dataclass(frozen=True)
class PackedDocuments(Sequence[list[np.ndarray]]):
    """Sentence i is ids[sentences[i]:sentences[i+1]], document i the sentences documents[i] to documents[i+1]."""

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    folder: Path | None = None

    @classmethod
    def open(cls, folder: Path) -> PackedDocuments:
        """The documents in `folder`, mapped into memory."""
        # asarray: plain arrays over the mapped file.
        arrays = {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in NAMES}
        return cls(**arrays, folder=folder)

    @classmethod
    def of(cls, documents: Iterable[Sequence[np.ndarray]]) -> PackedDocuments:
        """Documents of arrays, packed in memory."""
        packed = list(documents)
        sentences = [sentence for document in packed for sentence in document]
        return cls(np.concatenate(sentences), offsets(map(len, sentences)), offsets(map(len, packed)))

    def __len__(self) -> int:
        return len(self.documents) - 1

    def __getitem__(self, index: Any) -> Any:
        """The sentences of one document, as views."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        bounds = self.bounds(index % len(self))
        return [self.ids[start:end] for start, end in pairwise(bounds)]

    def bounds(self, index: int) -> list[int]:
        """Where the sentences of a document start, and where the last one ends."""
        bounds: list[int] = self.sentences[self.documents[index] : self.documents[index + 1] + 1].tolist()
        return bounds

    def __reduce__(self) -> tuple[Any, ...]:
        """By name for a worker that is started anew: it maps the same files instead of being sent their content."""
        if self.folder is not None:
            return PackedDocuments.open, (self.folder,)
        return PackedDocuments, (self.ids, self.sentences, self.documents)


def offsets(lengths: Iterable[int]) -> np.ndarray:
    """0 and the running sum."""
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))])


def write_documents(folder: Path, chunks: Iterator[Sequence[Sequence[np.ndarray]]]) -> None:
    """Write chunks of documents one after another, holding one chunk at a time."""
    with ExitStack() as stack:
        growing = {name: _Growing(folder / f"{name}.npy", dtype) for name, dtype in DTYPES.items()}
        ids, sentences, documents = (stack.enter_context(array) for array in growing.values())
        for array in (sentences, documents):
            array.append(np.zeros(1, np.int64))
        for chunk in chunks:
            packed = PackedDocuments.of(chunk)
            sentences.append(packed.sentences[1:] + ids.length)
            documents.append(packed.documents[1:] + documents.last)
            ids.append(packed.ids)


def write_header(file: BinaryIO, dtype: type[np.generic], length: int) -> None:
    """The head of a .npy file of one dimension, as long for any length: numpy pads it so that it may grow in place."""
    about = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, about)


class _Growing:
    """A .npy file of one dimension whose length is not known beforehand: the header is written again at the end."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.path = path
        self.dtype = dtype
        self.length = 0
        self.last = 0

    def __enter__(self) -> _Growing:
        self.file = open(self.path, "wb")
        write_header(self.file, self.dtype, self.length)
        return self

    def append(self, values: np.ndarray) -> None:
        self.file.write(values.astype(self.dtype, copy=False).tobytes())
        self.length += len(values)
        if len(values):
            self.last = int(values[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.file as file:
            file.seek(0)
            write_header(self.file, self.dtype, self.length)
            file.flush()
            os.fsync(file.fileno())  # a folder that is there is whole, even after a power cut
