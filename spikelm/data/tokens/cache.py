"""Tokenised text on disk, by content and settings: tokenised once, mapped into memory ever after."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from tokenizers import Tokenizer

from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.streams import chunks
from spikelm.data.tokens.encode import EncodedRows, EncodedTextPairs, encode_documents, encode_rows, encode_text_pairs
from spikelm.data.tokens.manifest import is_prepared
from spikelm.data.tokens.packed import PackedDocuments, write_documents
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.errors import DataError
from spikelm.machine.disk import disk_errors
from spikelm.store.checksums import damaged_in, seal_folder, whole_folder
from spikelm.store.hashing import digest

ENCODING = 1  # raise when the same text and settings no longer give the same arrays
CHUNK = 64  # documents tokenised at a time
Arrays = dict[str, np.ndarray]


def encoded_rows(
    text: LoadedText, split: str, task: TaskConfig, tokenizer: Tokenizer, max_length: int, cache: Path
) -> EncodedRows:
    """The rows of a split as `encode_rows` gives them."""

    def make() -> Arrays:
        rows = encode_rows(task, text.splits[split], tokenizer, max_length)
        return {"ids": rows.ids, "types": rows.types, "offsets": rows.offsets, "labels": rows.labels}

    settings = {"columns": list(task.columns), "kind": task.kind, "max_length": max_length}
    return EncodedRows(**_arrays(_folder(cache, text.content_hash, split, tokenizer, settings), make))


def encoded_text_pairs(
    text: LoadedText, split: str, task: TaskConfig, tokenizer: TextPairTokenizer, cache: Path
) -> EncodedTextPairs:
    """The text pairs of a split as `encode_text_pairs` gives them."""
    settings = {
        "columns": list(task.columns),
        "lengths": [task.source_length, task.target_length],
        **tokenizer.facts,
    }
    folder = _folder(cache, text.content_hash, split, tokenizer.tokenizer, settings)
    return EncodedTextPairs(**_arrays(folder, lambda: vars(encode_text_pairs(task, text.splits[split], tokenizer))))


def encoded_documents(text: LoadedText, split: str, tokenizer: Tokenizer, cache: Path) -> PackedDocuments:
    """The documents of a split as `encode_documents` gives them, tokenised as they are read."""

    def write(folder: Path) -> None:
        write_documents(folder, (encode_documents(chunk, tokenizer) for chunk in chunks(text.splits[split], CHUNK)))

    folder = documents_folder(cache, text.content_hash, split, tokenizer)
    damaged = damaged_in(folder)
    if damaged and is_prepared(cache, folder):  # hours of work, of which a shard or two are lost: not thrown away
        fix = "spikelm-prepare with the overrides of this run makes the damaged shards again"
        raise DataError(f"{folder} is damaged: {', '.join(damaged)} does not match its checksum", fix)
    if damaged or not folder.is_dir():
        with disk_errors(cache):
            cache.mkdir(parents=True, exist_ok=True)
        # It may take hours: another run waits instead of doing the same.
        with FileLock(cache / f"{folder.name[:16]}.lock"):
            _made_once(folder, write)
    return PackedDocuments.open(folder)


def documents_folder(cache: Path, content_hash: str, split: str, tokenizer: Tokenizer) -> Path:
    """Where the tokenised documents of a split are kept."""
    return _folder(cache, content_hash, split, tokenizer, {"documents": True})


def tokenizer_hash(tokenizer: Tokenizer) -> str:
    """sha256 of all that a tokenizer is."""
    tokenizer.no_truncation()  # set anew for each encoding, so no part of what the tokenizer is
    tokenizer.no_padding()
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def _folder(cache: Path, content_hash: str, split: str, tokenizer: Tokenizer, settings: dict[str, Any]) -> Path:
    return cache / "encoded" / digest([ENCODING, content_hash, split, tokenizer_hash(tokenizer), settings])


def _arrays(folder: Path, make: Callable[[], Arrays]) -> Arrays:
    """The arrays in `folder`, made and put there in one step if they are not."""

    def write(temporary: Path) -> None:
        for name, array in make().items():
            with open(temporary / f"{name}.npy", "wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())  # a folder that is there is whole, even after a power cut

    _made_once(folder, write)
    # asarray: plain arrays over the mapped file. Labels are small and handed to torch, which wants them writable.
    return {
        path.stem: np.load(path) if path.stem == "labels" else np.asarray(np.load(path, mmap_mode="r"))
        for path in folder.glob("*.npy")
    }


def _made_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder that then takes its place, checksummed, in one step."""
    if whole_folder(folder):
        return
    with disk_errors(folder.parent):
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
        temporary.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            seal_folder(temporary)
            try:
                temporary.rename(folder)
            except OSError:
                if not folder.is_dir():  # otherwise another process was first, with the same arrays
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
