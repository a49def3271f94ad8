"""Tables: one YAML each in conf/table, whose rows are systems and whose columns are tasks or measures.

Those of the paper have a number and its printed values. One of our own has a name, and numbers of ours alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from statistics import fmean

import yaml

from spikelm.catalog.estimators import KEYS
from spikelm.config.paths import config_dir
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError

#: a value as the paper prints it: with all of its digits, a word, or nothing
Printed = Decimal | int | str | None
#: the tables of the paper by number, and our own by name
TABLES = sorted(int(path.stem.removeprefix("table")) for path in (config_dir() / "table").glob("table*.yaml"))
OWN_TABLES = sorted(path.stem for path in (config_dir() / "table").glob("*.yaml") if not path.stem.startswith("table"))
GLUE = ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")
#: the nine numbers of a GLUE row
NINE = ("mnli_m", "mnli_mm", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")
#: columns that are measures of a system, not scores of a task, with their headings
MEASURES = {
    "T": "T",
    "energy_fp32": "mJ fp32",
    "energy_fp16": "mJ fp16",
    "energy_ratio": "mJ / plain",
    "firing": "firing %",
    "events": "events a value",
    "virtual_steps": "virtual steps",
    "seconds": "training s",
    "avg": "avg",
    "weight_bits": "weight bits",
    "act_bits": "act. bits",
    "levels": "spikes",
    "discrimination": "discrimination",
    "generation": "generation",
    **{f"energy_{key}": f"mJ {key.replace('_', ' ')}" for key in KEYS[2:]},
    **{f"energy_twin_{key}": f"/ twin, {key.replace('_', ' ')}" for key in KEYS[2:]},
    "verdict": "spike-driven",
    "operations": "matrix mul.",
}
#: measures that any run of a system tells
AUDITED = ("discrimination", "generation", "verdict", "operations")


@dataclass(frozen=True)
class Column:
    """A column: a metric of a task, a measure of a task's run, or a measure of the system."""

    name: str
    heading: str
    task: str = ""
    metric: str = ""  # empty: the task's first
    measure: str = ""

    @property
    def score(self) -> bool:
        """Whether it counts in an average."""
        return bool(self.task) and not self.measure


@dataclass(frozen=True)
class Row:
    """A printed row: its name, the system that makes it (if it can be run) and the paper's values by column."""

    name: str
    system: str | None
    paper: dict[str, Printed]
    metrics: dict[str, str] = field(default_factory=dict)  # column -> metric, where it is not the column's
    tasks: tuple[str, ...] = ()  # runs it needs, where its columns do not tell
    ours: str = ""  # its name in a table of ours alone, where the printed one says what ours is not


@dataclass(frozen=True)
class Footnote:
    """A remark on the cells of a column; `system` empty: of all rows. `ours`: it is true of ours as well."""

    column: str
    text: str
    system: str = ""
    ours: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table: what it compares, what the paper printed, and what is to be said about it."""

    id: int | str  # its number in the paper, or the name of one of our own
    title: str
    columns: list[Column]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    paper_notes: list[str] = field(default_factory=list)  # on what the paper prints
    footnotes: list[Footnote] = field(default_factory=list)
    averaged: tuple[Column, ...] = ()  # what `avg` is the mean of
    chosen: tuple[str, ...] | None = None  # the tasks it is made for; None: all of its own

    @property
    def own(self) -> bool:
        """Whether it is none of the paper's."""
        return isinstance(self.id, str)

    @property
    def tasks(self) -> list[str]:
        """The tasks of all its rows."""
        return list(dict.fromkeys(task for row in self.rows for task in self.row_tasks(row)))

    def row_tasks(self, row: Row) -> list[str]:
        """The runs that a row needs: of a column that the paper has a number for; else the pretrained one.

        A table of our own needs all of its columns.
        """
        if row.system is None:
            return []
        if row.tasks:
            return list(row.tasks)
        asked = [column for column in self.columns if self.own or row.paper[column.name] is not None]
        printed = [column.task for column in asked if column.task]
        if row.paper.get("avg") is not None or ((self.own or self.chosen) and "avg" in row.paper):
            skipped = {column.task for column in self.columns if column.task} - set(printed)
            printed += [column.task for column in self.averaged if column.task not in skipped]
        return list(dict.fromkeys(printed)) or ["pretrain"]

    def only(self, tasks: Sequence[str]) -> PaperTable:
        """The table for a few of its tasks: their columns, and means over them, the paper's included."""
        own = self.tasks
        full = {task.rpartition("/")[2]: task for task in own} | {task: task for task in own}
        if unknown := [task for task in tasks if task not in full]:
            valid = [task for task in full if "/" not in task]
            raise ConfigError(
                f"table {self.id} has no task {unknown[0]}{nearest(unknown[0].rpartition('/')[2], valid)}"
            )
        chosen = {full[task] for task in tasks}
        columns = [column for column in self.columns if not column.task or column.task in chosen]
        averaged = tuple(column for column in self.averaged if column.task in chosen)
        rows = [replace(row, paper={c.name: row.paper[c.name] for c in columns}) for row in self.rows]
        for row in rows:
            if "avg" in row.paper:
                row.paper["avg"] = entries_average(row, [column for column in columns if column.score])
        names = ", ".join(sorted(task.rpartition("/")[2] for task in chosen))
        note = f"Only {names}: an average is over these alone, not over nine numbers."
        return replace(
            self,
            columns=columns,
            rows=[replace(row, tasks=tuple(t for t in row.tasks if t in chosen)) for row in rows],
            averaged=averaged,
            chosen=tuple(task for task in own if task in chosen),
            notes=[note, *self.notes],
        )


def entries_average(row: Row, scores: Sequence[Column]) -> Decimal | None:
    """The mean of a row's printed scores with one digit; None if there are none."""
    printed = [row.paper[column.name] for column in scores]
    numbers = [float(value) for value in printed if value is not None]
    return Decimal(f"{fmean(numbers):.1f}") if numbers and len(numbers) == len(printed) else None


def load_table(id: int | str) -> PaperTable:
    """A table by its number in the paper, or by its name."""
    own = id in OWN_TABLES
    path = config_dir() / "table" / (f"{id}.yaml" if own else f"table{id}.yaml")
    if not own and not (str(id).isdigit() and path.is_file()):
        raise ConfigError(f"there is no table {id}", f"tables: {', '.join(map(str, (*TABLES, *OWN_TABLES)))}")
    raw = yaml.load(path.read_text(), _Printed)
    metrics = raw.get("metrics", {})
    columns = [_column(name, raw.get("define", {}), metrics) for name in raw["columns"]]
    scores = tuple(column for column in columns if column.score)
    nine = tuple(_column(name, {}, metrics) for name in NINE)
    return PaperTable(
        id=id if own else int(id),
        title=raw["title"],
        columns=columns,
        rows=[
            Row(
                row["name"],
                row.get("system"),
                dict.fromkeys(raw["columns"]) if own else _paper(raw["columns"], row["paper"]),
                row.get("metrics", {}),
                tuple(row.get("tasks", ())),
                row.get("ours", ""),
            )
            for row in raw["rows"]
        ],
        notes=raw.get("notes", []),
        paper_notes=raw.get("paper_notes", []),
        footnotes=[one for note in raw.get("footnotes", []) for one in _footnotes(**note)],
        averaged=scores or nine,
    )


class _Printed(yaml.SafeLoader):
    """Numbers with a point as they are printed: 6.10 stays 6.10."""


def _as_printed(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Decimal:
    return Decimal(str(loader.construct_scalar(node)))


_Printed.add_constructor("tag:yaml.org,2002:float", _as_printed)


def _column(name: str, defined: dict[str, dict[str, str]], metrics: dict[str, str]) -> Column:
    if name in defined:
        return Column(name, **defined[name])
    if name in MEASURES:
        return Column(name, MEASURES[name], measure=name)
    task = name.removesuffix("_mm").removesuffix("_m")
    metric = {"mnli_m": "accuracy", "mnli_mm": "accuracy_mm"}.get(name, metrics.get(task, ""))
    return Column(name, name.replace("_", "-"), f"glue/{task}", metric)


def _footnotes(
    text: str,
    column: str = "",
    system: str = "",
    columns: Sequence[str] = (),
    systems: Sequence[str] = (),
    ours: bool = False,
) -> list[Footnote]:
    """A remark of the YAML, on one cell or on all of several columns and systems."""
    return [Footnote(name, text, of, ours) for name in columns or [column] for of in systems or [system]]


def _paper(columns: Sequence[str], values: Sequence[Printed]) -> dict[str, Printed]:
    if len(values) != len(columns):
        raise ConfigError(f"a row of a table has {len(values)} values for {len(columns)} columns")
    return dict(zip(columns, values, strict=True))
