"""What local files hold, as hashes: paths cannot change a result, contents can. A changed file is read again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spikelm.data.local import task_files
from spikelm.data.sources import load_documents, load_rows, local_root
from spikelm.data.text_files import text_files
from spikelm.errors import DataError
from spikelm.records import digest, disk_errors, write_atomic
from spikelm.schema import SourceConfig, TaskConfig

READING = 1  # raise when the same files no longer give the same rows or documents


def source_identity(task: TaskConfig, source: SourceConfig, cache: Path) -> dict[str, Any]:
    """The part of a local source that decides a result: its content and its tokenizer's."""
    if task.kind in ("pretrain", "general"):
        found = {"name": source.name, "content": documents_hash(source, cache)}
    else:
        found = {"name": source.name, "content": _rows_hash(task, source, cache)}
    # Without a file the tokenizer is trained on the pretraining text, which is in the pretrained run's identity.
    return {**found, "tokenizer": file_hash(vocab_file(source.tokenizer))} if source.tokenizer else found


def documents_hash(source: SourceConfig, cache: Path) -> str:
    """The content hash of the local pretraining text, from the cache when its files have not changed."""
    files = text_files(local_root(source))
    known = _known(cache, files.values(), {"documents": source.documents})
    return _read(known) or _remember(known, load_documents(source).content_hash)


def _rows_hash(task: TaskConfig, source: SourceConfig, cache: Path) -> str:
    files = task_files(task, local_root(source), ("train", *task.splits))
    settings = {
        "task": [task.name, list(task.columns), list(task.labels)],
        "rows": [source.train_rows, source.dev_rows],
    }
    known = _known(cache, files.values(), settings)
    return _read(known) or _remember(known, load_rows(task, source).content_hash)


def vocab_file(tokenizer: str) -> Path:
    """vocab.txt itself, or in the folder."""
    path = Path(tokenizer)
    found = path / "vocab.txt" if path.is_dir() else path
    if not found.is_file():
        raise DataError(f"source.tokenizer: {found} is not there; expected a BERT WordPiece vocab.txt or its folder")
    return found


def file_hash(path: Path) -> str:
    """sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached_file_hash(path: Path, cache: Path) -> str:
    """`file_hash`, from the cache when the file has not changed."""
    known = _known(cache, [[path]], {"file": True})
    return _read(known) or _remember(known, file_hash(path))


def _known(cache: Path, files: Iterable[list[Path]], settings: dict[str, Any]) -> Path:
    """Where the hash of these files is kept: another size, time of change or setting is another place."""
    stats = [[str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns] for some in files for path in some]
    return cache / "hashes" / digest([READING, stats, settings])


def _read(known: Path) -> str:
    return known.read_text().strip() if known.is_file() else ""


def _remember(known: Path, found: str) -> str:
    with disk_errors(known.parent):
        known.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(known, found + "\n")
    return found
