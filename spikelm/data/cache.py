"""Tokenised text on disk, by content and settings: tokenised once, mapped into memory ever after."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from spikelm.data.encode import Encoded, encode_documents, encode_rows
from spikelm.data.sources import Text
from spikelm.records import digest, disk_errors
from spikelm.schema import TaskConfig

ENCODING = 1  # raise when the same text and settings no longer give the same arrays
Arrays = dict[str, np.ndarray]


def encoded_rows(
    text: Text, split: str, task: TaskConfig, tokenizer: Tokenizer, max_length: int, cache: Path
) -> Encoded:
    """The rows of a split as `encode_rows` gives them."""

    def make() -> Arrays:
        rows = encode_rows(task, text.splits[split], tokenizer, max_length)
        return {"ids": rows.ids, "types": rows.types, "offsets": rows.offsets, "labels": rows.labels}

    settings = {"columns": list(task.columns), "kind": task.kind, "max_length": max_length}
    return Encoded(**_arrays(_folder(cache, text, split, tokenizer, settings), make))


def encoded_documents(text: Text, split: str, tokenizer: Tokenizer, cache: Path) -> list[list[np.ndarray]]:
    """The documents of a split as `encode_documents` gives them."""

    def make() -> Arrays:
        documents = encode_documents(text.splits[split], tokenizer)
        sentences = [sentence for document in documents for sentence in document]
        return {
            "ids": np.concatenate(sentences),
            "sentences": np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]),
            "documents": np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
        }

    found = _arrays(_folder(cache, text, split, tokenizer, {"documents": True}), make)
    sentences = np.split(found["ids"], found["sentences"][1:-1])
    documents = found["documents"].tolist()
    return [sentences[start:end] for start, end in pairwise(documents)]


def _folder(cache: Path, text: Text, split: str, tokenizer: Tokenizer, settings: dict[str, Any]) -> Path:
    tokenizer.no_truncation()  # set anew for each encoding, so no part of what the tokenizer is
    tokenizer.no_padding()
    pieces = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    return cache / "encoded" / digest([ENCODING, text.content_hash, split, pieces, settings])


def _arrays(folder: Path, make: Callable[[], Arrays]) -> Arrays:
    """The arrays in `folder`, made and put there in one step if they are not."""
    if not folder.is_dir():
        _write(folder, make())
    # asarray: plain arrays over the mapped file. Labels are small and handed to torch, which wants them writable.
    return {
        path.stem: np.load(path) if path.stem == "labels" else np.asarray(np.load(path, mmap_mode="r"))
        for path in folder.glob("*.npy")
    }


def _write(folder: Path, arrays: Arrays) -> None:
    with disk_errors(folder.parent):
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
        temporary.mkdir(parents=True, exist_ok=True)
        try:
            for name, array in arrays.items():
                with open(temporary / f"{name}.npy", "wb") as file:
                    np.save(file, array)
                    file.flush()
                    os.fsync(file.fileno())  # a folder that is there is whole, even after a power cut
            try:
                temporary.rename(folder)
            except OSError:
                if not folder.is_dir():  # otherwise another process was first, with the same arrays
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
