"""The labelled rows of a GLUE-like task, wherever they come from: `load_rows`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.embedded import embedded_counts, embedded_rows
from spikelm.data.sources.hub import Origin, hub_files, read_hub_rows, task_origin, task_repository
from spikelm.data.sources.loaded import LoadedText, first_rows, unofficial_counts
from spikelm.data.sources.row_files import FileRows, Layout, column_names, read_rows, shortened
from spikelm.data.sources.task_files import task_files, task_root
from spikelm.errors import DataError

Row = dict[str, Any]


def load_rows(task: TaskConfig, source: SourceConfig) -> LoadedText:
    """Train and evaluated splits of a task, checked against its columns and labels."""
    _refuse_numbered_labels(task)
    splits, read_from = ("train", *task.splits), Origin({})
    counts: Mapping[str, int] | None = None
    if task.files or source.name == "local":
        rows, notes = _rows_of_files(task, task_files(task, task_root(task, source), splits), read_rows)
    elif source.name == "embedded":
        rows, notes = _embedded_rows(task, source), []
        counts = embedded_counts(task)
    else:
        files = hub_files(task_repository(task, source), splits, source.mirror)
        rows, notes = _rows_of_files(task, files, read_hub_rows)
        read_from = task_origin(task, source, files)
    text = first_rows(task, source, rows, counts)
    return replace(text, warnings=(*notes, *read_from.warnings), commits=read_from.commits)


def _embedded_rows(task: TaskConfig, source: SourceConfig) -> dict[str, list[Row]]:
    return {
        split: _numbered(checked_row(task, f"{task.name} {split} row {index}", row) for index, row in enumerate(rows))
        for split, rows in embedded_rows(task, source).items()
    }


def _rows_of_files(
    task: TaskConfig, files: Mapping[str, list[Path]], read: Callable[[Path, Layout], FileRows]
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of each split as the hub has GLUE's (columns, label ids, idx), and what to tell the user."""
    layout = Layout(
        columns=column_names((*task.columns, "label"), task.file_columns),
        headerless=task.tsv_columns,
        skip_broken=task.skip_broken,
    )
    rows: dict[str, list[Row]] = {}
    notes: list[str] = []
    for split, paths in files.items():
        checked: list[Row] = []
        for path in paths:
            file_rows = read(path, layout)
            if file_rows.skipped:
                notes.append(f"{path}: {file_rows.skipped} rows with the wrong number of fields were left out")
            labelled = [row for row in file_rows.rows if not (task.skip_broken and _unlabelled(task, row[1]["label"]))]
            if left_out := len(file_rows.rows) - len(labelled):
                notes.append(f"{path}: {left_out} rows without a label were left out")
            checked += [checked_row(task, where, record) for where, record in labelled]
        rows[split] = _numbered(checked)
    return rows, notes + unofficial_counts(task, rows)


def _numbered(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "idx": index} for index, row in enumerate(rows)]


def checked_row(task: TaskConfig, where: str, record: Mapping[str, Any]) -> Row:
    """The texts of a record, and its label where it has one, as the task says; the error names the record's place."""
    for column in task.columns:
        if not isinstance(record.get(column), str):
            raise DataError(f"{where}: {column} is {shortened(record.get(column))}, expected text")
    texts = {column: record[column] for column in task.columns}
    return {**texts, "label": _label(task, where, record["label"])} if "label" in record else texts


def _unlabelled(task: TaskConfig, label: Any) -> bool:
    """Whether a label is none, as files say it: nothing, the - of MNLI, the -1 of the hub's hidden tests."""
    return label in (None, "", "-") or (task.kind == "classification" and _number(label) == -1)


def _refuse_numbered_labels(task: TaskConfig) -> None:
    """A name that is a number could be meant as another label's id: 1 of the labels 1 to 5, or of 0 to 4?"""
    for index, name in enumerate(task.labels):
        if not math.isnan(number := _number(name)) and number != index:
            raise DataError(
                f"task.labels has {name!r} for the id {index}: a file's {name} could be a name or an id",
                "give the labels names that are no numbers",
            )


def _label(task: TaskConfig, where: str, value: Any) -> int | float:
    """A label id from a number or a name; a score for a regression."""
    if task.kind == "regression":
        return _score(task, where, value)
    if isinstance(value, str) and value in task.labels:
        return list(task.labels).index(value)
    number = _number(value)
    if not number.is_integer() or not 0 <= number < len(task.labels):
        valid = ", ".join(f"{index} ({name})" for index, name in enumerate(task.labels))
        raise DataError(f"{where}: label {shortened(value)} is not one of {valid}", _without(task, value))
    return int(number)


def _without(task: TaskConfig, label: Any) -> str:
    return "task.skip_broken=true leaves rows without a label out" if _unlabelled(task, label) else ""


def _score(task: TaskConfig, where: str, value: Any) -> float:
    """A number of the task's range. One kept in single precision, as the hub's, is the decimal it was made from."""
    lowest, highest = task.score_range or (-math.inf, math.inf)
    score = _number(value)
    if not math.isfinite(score) or not lowest <= score <= highest:
        expected = f"a number from {lowest:g} to {highest:g}" if task.score_range else "a number"
        raise DataError(f"{where}: label {shortened(value)} is not {expected}", _without(task, value))
    single = np.float32(score)
    return float(str(single)) if float(single) == score else score  # 3.8, not 3.799999952


def _number(value: Any) -> float:
    """The value as a number, not-a-number when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
