"""GLUE files for tests, in every layout that people have them in."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

OFFICIAL = {  # header, two rows, the rows they are
    "rte": ("index\tsentence1\tsentence2\tlabel", ["0\ta\tb\tnot_entailment", "1\tc\td\tentailment"], [1, 0]),
    "mrpc": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", ["1\t7\t8\ta\tb", "0\t9\t10\tc\td"], [1, 0]),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        ["0\tg\tf\t2012\t1\tnone\tnone\ta\tb\t5.000", "1\tg\tf\t2012\t1\tnone\tnone\tc\td\t0.25"],
        [5.0, 0.25],
    ),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", ["0\t1\t2\ta\tb\t1", "3\t4\t5\tc\td\t0"], [1, 0]),
    "mnli": (
        "index\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        ["0\tg\t( x )\ta\tb\tneutral\tcontradiction", "1\tg\t( x )\tc\td\tneutral\tentailment"],
        [2, 0],
    ),
    "qnli": ("index\tquestion\tsentence\tlabel", ["0\ta\tb\tentailment", "1\tc\td\tnot_entailment"], [0, 1]),
    "wnli": ("index\tsentence1\tsentence2\tlabel", ["0\ta\tb\t1", "1\tc\td\t0"], [1, 0]),
    "sst2": ("sentence\tlabel", ["a\t1", "c\t0"], [1, 0]),
    "cola": ("", ["gj04\t1\t\ta", "gj04\t0\t*\tc"], [1, 0]),
}


def write(root: Path, lines: list[str], folder: str = "RTE", names: tuple[str, ...] = ("train.tsv", "dev.tsv")) -> Path:
    for name in names:
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("\n".join([*lines, ""]).encode())
    return root


def write_as(ending: str, path: Path, rows: list[dict[str, Any]]) -> None:
    if ending == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            quoting = csv.QUOTE_NONE if ending == "tsv" else csv.QUOTE_MINIMAL
            tab = {"delimiter": "\t", "quotechar": None} if ending == "tsv" else {}
            writer = csv.DictWriter(file, list(rows[0]), quoting=quoting, **tab)
            writer.writeheader()
            writer.writerows(rows)


def hub_parquet(path: Path, rows: list[dict[str, Any]], labels: list[str]) -> Path:
    """A file as the hub has it: features in its metadata, labels as ids (or single precision), idx with gaps."""
    from datasets import ClassLabel, Dataset, Features, Value

    texts = {name: Value("string") for name in rows[0] if name not in ("label", "idx")}
    label = ClassLabel(names=labels) if labels else Value("float32")
    features = Features({**texts, "label": label, "idx": Value("int32")})
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list([{**row, "idx": 3 * row["idx"]} for row in rows], features=features).to_parquet(str(path))
    return path


def hub_cache(home: Path, repo: str, revision: str) -> Path:
    """The folder of a repository's commit in the hub's cache under `home`, with the reference to it."""
    folder = home / "hub" / f"datasets--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(revision)
    return folder / "snapshots" / revision
