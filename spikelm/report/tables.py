"""Tables of the paper: one YAML each in conf/table, whose rows are systems and whose columns are tasks or measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import yaml

from spikelm.check import nearest
from spikelm.errors import ConfigError
from spikelm.schema import config_dir

TABLES = sorted(int(path.stem.removeprefix("table")) for path in (config_dir() / "table").glob("table*.yaml"))
GLUE = ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")


@dataclass(frozen=True)
class Row:
    """A printed row: its name, the system that makes it (if it can be run) and the paper's values by column."""

    name: str
    system: str | None
    paper: dict[str, Any]


@dataclass(frozen=True)
class PaperTable:
    """A table: columns are `energy_fp32`, `energy_fp16`, `firing`, `avg`, or a GLUE task (mnli_m, mnli_mm apart)."""

    id: int
    title: str
    columns: list[str]
    rows: list[Row]
    metrics: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chosen: tuple[str, ...] = GLUE  # the GLUE tasks it is made for

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(row.system for row in self.rows if row.system))

    @property
    def tasks(self) -> list[str]:
        """The tasks its columns need: fine-tuned ones, or only the pretrained run."""
        wanted = [_task(column) for column in self.columns]
        if "avg" in self.columns:
            wanted += GLUE
        tasks = [f"glue/{task}" for task in self.chosen if task in wanted]
        return tasks or ["pretrain"]

    def only(self, tasks: Sequence[str]) -> PaperTable:
        """The table for a few of its tasks: their columns, and means over them, the paper's included."""
        names = {task.removeprefix("glue/") for task in tasks}
        there = [task.removeprefix("glue/") for task in self.tasks]
        if unknown := sorted(names - set(there)):
            raise ConfigError(f"table {self.id} has no task {unknown[0]}{nearest(unknown[0], there)}")
        chosen = tuple(task for task in GLUE if task in names)
        columns = [column for column in self.columns if _task(column) not in GLUE or _task(column) in chosen]
        scores = [column for column in columns if _task(column) in GLUE]
        rows = [replace(row, paper={column: row.paper[column] for column in columns}) for row in self.rows]
        if "avg" in columns:
            for row in rows:
                printed = [row.paper[column] for column in scores]
                row.paper["avg"] = round(fmean(printed), 1) if printed and None not in printed else None
        note = f"Only {', '.join(chosen)}: an average, the paper's too, is over these alone, not over nine numbers."
        return replace(self, columns=columns, rows=rows, chosen=chosen, notes=[note, *self.notes])


def _task(column: str) -> str:
    return column.removesuffix("_mm").removesuffix("_m")


def load_table(id: int | str) -> PaperTable:
    """A table by its number in the paper."""
    path = config_dir() / "table" / f"table{id}.yaml"
    if not str(id).isdigit() or not path.is_file():
        raise ConfigError(f"table {id} cannot be reproduced yet", f"tables that can: {', '.join(map(str, TABLES))}")
    raw = yaml.safe_load(path.read_text())
    columns: list[str] = raw["columns"]
    return PaperTable(
        id=int(id),
        title=raw["title"],
        columns=columns,
        rows=[Row(row["name"], row.get("system"), _paper(columns, row["paper"])) for row in raw["rows"]],
        metrics=raw.get("metrics", {}),
        notes=raw.get("notes", []),
    )


def _paper(columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    if len(values) != len(columns):
        raise ConfigError(f"a row of a table has {len(values)} values for {len(columns)} columns")
    return dict(zip(columns, values, strict=True))
