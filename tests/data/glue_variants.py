"""The same GLUE rows written in every layout: each variant gives the overrides that read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glue_files import OFFICIAL, hub_cache, hub_parquet, write_as

from spikelm.config.compose import load_config
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.hub import GLUE

Rows = dict[str, list[dict[str, Any]]]
TEXTS = [
    'He said "no',
    'It\'s, well, "so".',
    "Überall\u2028 hier, 你好 🙂",
    " spaces around  ",
    "null",
    "",
    "N/A",
    "back\\slash",
    "#1 String",
    "a\x0bb\x85c",
]
SCORES = [3.8, 0.25, 5.0, 2.333, 0.0]
REVISION = load_config(["source=hub"]).source.revision or ""
Write = Callable[[Path, TaskConfig, Rows], list[str]]


def glue_task(name: str) -> TaskConfig:
    return load_config([f"task=glue/{name}"]).task


def made_up(task: TaskConfig) -> Rows:
    """Rows with quotes, odd spaces, other alphabets and words that readers take for nothing."""
    rows = {}
    for shift, split in enumerate(("train", *task.splits)):
        rows[split] = [
            {
                **{column: TEXTS[(i * 3 + c + shift) % len(TEXTS)] for c, column in enumerate(task.columns)},
                "label": SCORES[i % len(SCORES)] if task.kind == "regression" else i % len(task.labels),
                "idx": i,
            }
            for i in range(12)
        ]
    return rows


def local(root: Path, *more: str) -> list[str]:
    return ["source=local", f"source.root={root}", *more]


def official_tsv(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    """The published files: their folder, their columns, names as labels, CoLA without a header."""
    name = task.name.removeprefix("glue/")
    header = OFFICIAL[name][0]
    names = header.removeprefix("\ufeff").split("\t") if header else list(task.tsv_columns)
    by_name = {task.file_columns.get(column, column): column for column in (*task.columns, "label")}
    as_words = name in ("rte", "mnli", "qnli")
    folder = root / {"sst2": "SST-2", "stsb": "STS-B", "cola": "CoLA"}.get(name, name.upper())
    folder.mkdir()
    for split, items in rows.items():
        lines = [header] if header else []
        for row in items:
            shown = {**row, "label": task.labels[row["label"]]} if as_words else row
            lines.append("\t".join(str(shown[by_name[key]]) if key in by_name else "x" for key in names))
        file = folder / f"{split.replace('validation', 'dev')}.tsv"
        file.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return local(root)


def headerless_tsv(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    columns = ["label", *task.columns]
    (root / task.hub).mkdir()
    for split, items in rows.items():
        lines = ["\t".join(str(row[column]) for column in columns) for row in items]
        (root / task.hub / f"{split}.tsv").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return local(root, f"task.tsv_columns=[{','.join(columns)}]")


def files(ending: str) -> Write:
    def write(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
        (root / task.hub).mkdir()
        for split, items in rows.items():
            write_as(ending, root / task.hub / f"{split}.{ending}", items)
        return local(root)

    return write


def hub_files(folder: Path, task: TaskConfig, rows: Rows) -> None:
    for split, items in rows.items():
        half = len(items) // 2 if split == "train" else 0
        for index, part in enumerate((items[:half], items[half:]) if half else (items,)):
            name = f"{split}-{index:05}-of-{2 if half else 1:05}.parquet"
            hub_parquet(folder / task.hub / name, part, list(task.labels) if task.kind == "classification" else [])


def hub_as_local(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    hub_files(root, task, rows)
    return local(root)


def mirror(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    hub_files(root / GLUE, task, rows)
    return ["source=hub", f"source.mirror={root}"]


def cache(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    hub_files(hub_cache(root, GLUE, REVISION), task, rows)
    return ["source=hub"]


def cache_of_main(root: Path, task: TaskConfig, rows: Rows) -> list[str]:
    return [*cache(root, task, rows), "source.revision=null"]


VARIANTS: dict[str, Write] = {
    "official": official_tsv,
    "headerless": headerless_tsv,
    **{ending: files(ending) for ending in ("tsv", "csv", "jsonl", "parquet")},
    "hub files": hub_as_local,
    "hub mirror": mirror,
    "hub cache": cache,
    "hub cache, main": cache_of_main,
}
