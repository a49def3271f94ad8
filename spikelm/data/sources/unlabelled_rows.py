"""Training rows of the GLUE tasks as text without labels: two sentences that share words, which no article has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from spikelm.config.paths import config_dir
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.loaded import LoadedText, content_hash
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.streams import Document, Documents
from spikelm.data.sources.task_files import has_folder, local_root, task_files


def with_task_rows(text: LoadedText, source: SourceConfig, limit: int) -> LoadedText:
    """The text with the first `limit` training rows of each task behind it, each a document of one or two sentences.

    Rows that are evaluated are never read, and no label is kept.
    """
    rows = task_row_documents(source, limit)
    articles = text.splits["train"]
    joined = Documents(partial(_joined, articles, rows), len(articles) + len(rows))
    content = hash_with_rows(text.content_hash, rows)
    notes = () if rows else ("general.task_rows adds nothing: the source has no GLUE task",)
    return replace(
        text,
        splits={**text.splits, "train": joined},
        content_hash=content,
        task_rows=len(rows),
        warnings=(*text.warnings, *notes),
    )


def task_row_documents(source: SourceConfig, limit: int) -> list[Document]:
    """The first `limit` training rows of each task, each a document of one or two sentences; none without a task."""
    return [document for task in _tasks(source) for document in _documents(task, source, limit)]


def hash_with_rows(text_hash: str, rows: list[Document]) -> str:
    """The content hash of a text with rows behind it."""
    return content_hash([text_hash, *rows])


def other_rows(task: TaskConfig, source: SourceConfig, limit: int) -> list[Document]:
    """The first `limit` training rows of every other task with as many texts per row, to ask a teacher about.

    A source may have no such task: then the teacher is asked about the rows of the task alone.
    """
    others = [other for other in _tasks(source) if other.name != task.name]
    alike = [other for other in others if len(other.columns) == len(task.columns)]
    rows = [document for other in alike for document in _documents(other, source, limit)]
    return [document for document in rows if len(document) == len(task.columns)]


def unlabelled_row_files(source: SourceConfig, limit: int) -> tuple[list[list[Path]], dict[str, Any]]:
    """The local files that these rows are read from, and how they are read."""
    root, tasks = local_root(source), _tasks(source)
    files = [files for task in tasks for files in task_files(task, root, ("train",)).values()]
    return files, {
        "task_rows": limit,
        "tune": source.tune,
        "tasks": [[task.name, list(task.columns)] for task in tasks],
    }


def _joined(articles: Documents, rows: list[Document]) -> Iterator[Document]:
    return chain(articles, rows)


def _tasks(source: SourceConfig) -> list[TaskConfig]:
    """The GLUE tasks that the source has."""
    if source.name == "embedded":
        return [task for task in _glue_tasks() if task.name.removeprefix("glue/") in microworld.TASKS]
    return [task for task in _glue_tasks() if source.name != "local" or has_folder(local_root(source), task)]


@cache
def _glue_tasks() -> tuple[TaskConfig, ...]:
    """The tasks of conf/task/glue, which nobody changes."""
    tasks = []
    for path in sorted((config_dir() / "task" / "glue").glob("*.yaml")):
        task: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), OmegaConf.load(path)))
        tasks.append(task)
    return tuple(tasks)


def _documents(task: TaskConfig, source: SourceConfig, limit: int) -> list[Document]:
    rows = load_rows(replace(task, splits={}), replace(source, train_rows=limit)).splits["train"]
    documents = ([row[column] for column in task.columns if row[column].strip()] for row in rows)
    return [document for document in documents if document]
