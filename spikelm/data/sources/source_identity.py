"""The part of a source that decides a result: of files their content, not their paths."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from spikelm.catalog.kinds import LM
from spikelm.config.settings.fields import FINE_TUNING, PRETRAINING, decided
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.documents import documents_hash
from spikelm.data.sources.embedded import embedded_name
from spikelm.data.sources.hub import GLUE, task_repository, text_repositories
from spikelm.data.sources.loaded import content_hash
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.running_text import load_running_text
from spikelm.data.sources.task_files import task_files, task_root
from spikelm.data.sources.text_pair_files import text_pair_files
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.sources.unlabelled_rows import other_rows, unlabelled_row_files
from spikelm.errors import DataError
from spikelm.store.checksums import file_hash
from spikelm.store.file_facts import place_of, recall, remember

WITHOUT_ROWS = ("pretrain", "general")  # kinds of task that read documents


def source_identity(
    task: TaskConfig, source: SourceConfig, cache: Path, task_rows: int | None = None, train: bool = True
) -> dict[str, Any]:
    """What of a source decides a result: version and seed, or content by hash or by name, and its tokenizer's hash.

    `task_rows`: how many training rows of each (other) task are read besides, without labels. Without `train` the run
    looks at no row to train on, and local text pairs need not have any.
    """
    if source.name == "embedded" and not task.files:
        return _embedded_identity(task, source, task_rows)
    if source.name == "hub" and not task.files:
        identity = _hub_identity(task, source)
        if task_rows:  # the repository's own revision says which rows these are
            identity["others"] = {"repo": source.glue or GLUE, "revision": source.revision}
            if source.tune:
                identity["others"]["tune"] = True
    elif task.kind in WITHOUT_ROWS:
        identity = {"name": source.name, "content": documents_hash(source, cache, task_rows)}
    elif task.kind == LM:
        identity = {"name": source.name, "content": load_running_text(task, source, cache).content_hash}
    else:
        identity = {"name": source.name, "content": _rows_hash(task, source, cache, train)}
        if task_rows:
            identity["others"] = _others_hash(task, source, cache, task_rows)
    # Without a file the tokenizer is trained on the pretraining text, which is in the pretrained run's identity.
    own_file = tokenizer_file if task.kind in ("seq2seq", LM) else vocab_file
    return {**identity, "tokenizer": file_hash(own_file(source.tokenizer))} if source.tokenizer else identity


def _embedded_identity(task: TaskConfig, source: SourceConfig, task_rows: int | None) -> dict[str, Any]:
    """Version and seed say what the micro-world makes; a task that it does not have is refused here, before any run."""
    reads_rows = task.kind not in WITHOUT_ROWS or task_rows
    identity = decided(source, FINE_TUNING if reads_rows else PRETRAINING)
    name = "" if task.kind in WITHOUT_ROWS else embedded_name(task)
    if task.kind == "seq2seq":
        del identity["documents"]  # text pairs are not made of documents
        return {**identity, "version": f"seq2seq/{microworld.SEQ2SEQ_VERSION}"}
    version = microworld.version_of("" if task.kind == LM else name)
    return {**identity, "version": max(version, microworld.TWO_TEXTS_VERSION) if task_rows else version}


def _hub_identity(task: TaskConfig, source: SourceConfig) -> dict[str, Any]:
    """Repository, configuration, revision and columns say what the hub gives; where a mirror lies does not matter."""
    if task.kind in WITHOUT_ROWS:
        text = [asdict(text) for text in text_repositories(source)]
        return {"name": source.name, "text": text, "documents": source.documents}
    if task.kind == LM:
        return {"name": source.name, "text": asdict(task_repository(task, source)), "documents": source.documents}
    return {
        "name": source.name,
        "rows": asdict(task_repository(task, source)),
        "columns": {"named": dict(task.file_columns), "headerless": list(task.tsv_columns)},
        "limits": _limits(source),
    }


def _rows_hash(task: TaskConfig, source: SourceConfig, cache: Path, train: bool) -> str:
    """The content hash of a task's rows, from the cache when neither its files nor the way to read them changed."""
    pairs = task.kind == "seq2seq"
    find, load = (partial(text_pair_files, train=train), load_text_pairs) if pairs else (task_files, load_rows)
    files = find(task, task_root(task, source), ("train", *task.splits))
    settings = {
        "task": [task.name, task.kind, list(task.columns), list(task.labels), list(task.splits)],
        "columns": [dict(task.file_columns), list(task.tsv_columns), task.skip_broken, list(task.score_range)],
        "rows": _limits(source),
    }
    place = place_of(cache, files.values(), settings)
    return recall(place) or remember(place, load(task, source).content_hash)


def _limits(source: SourceConfig) -> list[Any]:
    """Which of the rows are read."""
    return [source.train_rows, source.dev_rows, *(["tune"] if source.tune else [])]


def _others_hash(task: TaskConfig, source: SourceConfig, cache: Path, task_rows: int) -> str:
    """The content hash of the rows of other tasks that a teacher is asked about."""
    if source.name != "local":
        return content_hash(other_rows(task, source, task_rows))
    files, settings = unlabelled_row_files(source, task_rows)
    place = place_of(cache, files, {"others": [task.name, list(task.columns)], **settings})
    return recall(place) or remember(place, content_hash(other_rows(task, source, task_rows)))


def vocab_file(tokenizer: str) -> Path:
    """vocab.txt itself, or in the folder."""
    path = Path(tokenizer)
    file = path / "vocab.txt" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"source.tokenizer: {file} is not there; expected a BERT WordPiece vocab.txt or its folder")
    return file


def tokenizer_file(tokenizer: str) -> Path:
    """tokenizer.json itself, or in the folder."""
    path = Path(tokenizer)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file() or file.suffix != ".json":
        raise DataError(f"source.tokenizer: {file} is not there; expected a tokenizer.json or its folder")
    return file
