"""The part of a source that decides a result: of local files their content, not their paths."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from spikelm.config.schema import SourceConfig, TaskConfig
from spikelm.data.sources.documents import documents_hash
from spikelm.data.sources.hub import text_repositories
from spikelm.data.sources.rows import GLUE, content_hash, load_rows, rows_root
from spikelm.data.sources.task_files import task_files
from spikelm.data.sources.text_pair_files import text_pair_files
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.sources.unlabelled_rows import other_rows, row_files
from spikelm.errors import DataError
from spikelm.store.checksums import file_hash
from spikelm.store.file_facts import place_of, recall, remember


def source_identity(
    task: TaskConfig, source: SourceConfig, cache: Path, task_rows: int | None = None
) -> dict[str, Any]:
    """The part of a local or hub source that decides a result: its content, by hash or by name, and its tokenizer's."""
    if source.name == "hub" and not task.files:
        found = _hub_identity(task, source)
        if task_rows:  # the repository's own revision says which rows these are
            found["others"] = {"repo": source.glue or GLUE, "revision": source.revision}
    elif task.kind in ("pretrain", "general"):
        found = {"name": source.name, "content": documents_hash(source, cache, task_rows)}
    else:
        found = {"name": source.name, "content": _rows_hash(task, source, cache)}
        if task_rows:
            found["others"] = _others_hash(task, source, cache, task_rows)
    # Without a file the tokenizer is trained on the pretraining text, which is in the pretrained run's identity.
    named = tokenizer_file if task.kind == "seq2seq" else vocab_file
    return {**found, "tokenizer": file_hash(named(source.tokenizer))} if source.tokenizer else found


def _hub_identity(task: TaskConfig, source: SourceConfig) -> dict[str, Any]:
    """Repository, configuration and revision say what the hub gives; where a mirror lies does not matter."""
    if task.kind in ("pretrain", "general"):
        text = [asdict(text) for text in text_repositories(source)]
        return {"name": source.name, "text": text, "documents": source.documents}
    rows = {"repo": source.glue or GLUE, "config": task.hub, "revision": source.revision}
    if task.kind == "seq2seq":
        rows = {"repo": task.repo, "config": task.hub, "revision": task.revision}
    return {"name": source.name, "rows": rows, "limits": [source.train_rows, source.dev_rows]}


def _rows_hash(task: TaskConfig, source: SourceConfig, cache: Path) -> str:
    pairs = task.kind == "seq2seq"
    files = (text_pair_files if pairs else task_files)(task, rows_root(task, source), ("train", *task.splits))
    settings = {
        "task": [task.name, list(task.columns), list(task.labels)],
        "rows": [source.train_rows, source.dev_rows],
    }
    place = place_of(cache, files.values(), settings)
    return recall(place) or remember(place, (load_text_pairs if pairs else load_rows)(task, source).content_hash)


def _others_hash(task: TaskConfig, source: SourceConfig, cache: Path, task_rows: int) -> str:
    """Of the rows of other tasks that a teacher is asked about."""
    if source.name != "local":
        return content_hash(other_rows(task, source, task_rows))
    files, how = row_files(source, task_rows)
    place = place_of(cache, files, {"others": [task.name, list(task.columns)], **how})
    return recall(place) or remember(place, content_hash(other_rows(task, source, task_rows)))


def vocab_file(tokenizer: str) -> Path:
    """vocab.txt itself, or in the folder."""
    path = Path(tokenizer)
    found = path / "vocab.txt" if path.is_dir() else path
    if not found.is_file():
        raise DataError(f"source.tokenizer: {found} is not there; expected a BERT WordPiece vocab.txt or its folder")
    return found


def tokenizer_file(tokenizer: str) -> Path:
    """tokenizer.json itself, or in the folder."""
    path = Path(tokenizer)
    found = path / "tokenizer.json" if path.is_dir() else path
    if not found.is_file() or found.suffix != ".json":
        raise DataError(f"source.tokenizer: {found} is not there; expected a tokenizer.json or its folder")
    return found
