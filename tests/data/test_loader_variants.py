"""The same GLUE rows from every layout, and an error that names the place for every broken one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from glue_variants import REVISION, VARIANTS, glue_task, made_up

from spikelm.config.compose import load_config
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.hub import GLUE
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.errors import DataError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HF_HOME of this test alone; the library read the variable when it was imported."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def load(task: TaskConfig, overrides: list[str]) -> LoadedText:
    config = load_config([f"task={task.name}", *overrides])
    return load_rows(config.task, config.source)


@pytest.mark.parametrize("name", ["mrpc", "cola", "stsb", "sst2", "rte", "mnli", "qqp", "qnli", "wnli"])
def test_every_variant_gives_the_same_rows(name: str, home: Path) -> None:
    task = glue_task(name)
    rows = made_up(task)
    hashes = set()
    for variant, write in VARIANTS.items():
        root = home if variant.startswith("hub cache") else home / variant.replace(" ", "-")
        root.mkdir(exist_ok=True)
        text = load(task, write(root, task, rows))
        assert text.splits == rows, variant
        hashes.add(text.content_hash)
    assert len(hashes) == 1


def broken(home: Path, variant: str, spoil: Callable[[Path], None], task: str = "rte") -> str:
    """What is said when the training file of a variant is spoilt."""
    about = glue_task(task)
    overrides = VARIANTS[variant](home, about, made_up(about))
    spoil(next(path for path in sorted(home.rglob("train*")) if path.is_file()))
    with pytest.raises(DataError) as caught:
        load(about, overrides)
    return caught.value.what


def replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return spoil


def with_rows(change: dict[str, Any], drop: str = "") -> Callable[[Path], None]:
    """The Parquet file with another first row, or without a column."""

    def spoil(path: Path) -> None:
        from pyarrow import Table, parquet

        rows = parquet.read_table(path).to_pylist()
        rows[0] |= change
        parquet.write_table(Table.from_pylist([{k: v for k, v in row.items() if k != drop} for row in rows]), path)

    return spoil


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


PARQUET = ["parquet", "hub files", "hub mirror", "hub cache"]
ABSENT = r"has no file for train: looked for|train is 2 (Parquet )?files, but only 1"
MISTAKES: list[tuple[str, Callable[[Path], None], str]] = [
    *((variant, Path.unlink, ABSENT) for variant in VARIANTS),
    *((variant, truncated, r"train[-\w]*\.parquet is not a Parquet file: ") for variant in PARQUET),
    *(
        (variant, with_rows({"label": 7}), r"parquet row 0: label 7 is not one of 0 \(entailment\)")
        for variant in PARQUET
    ),
    *(
        (variant, with_rows({}, drop="sentence2"), r"parquet: no column 'sentence2'; the columns")
        for variant in PARQUET
    ),
    *((variant, with_rows({"sentence1": None}), r"parquet row 0: sentence1 is None, expected") for variant in PARQUET),
    *(
        (variant, replaced(b"He said", b"He \xff said"), r"train\.\w+ line \d+: not UTF-8")
        for variant in ("official", "headerless", "tsv", "csv", "jsonl")
    ),
    *(
        (variant, replaced(b"sentence2", b"sentence3"), r"train\.\w+ line 1: no column 'sentence2'; the columns are")
        for variant in ("official", "tsv", "csv", "jsonl")
    ),
    (
        "official",
        replaced(b"\tentailment", b"\tperhaps"),
        r"train\.tsv line 2: label 'perhaps' is not one of 0 ",
    ),
    ("headerless", replaced(b"0\t", b"7\t"), r"train\.tsv line 1: label '7' is not one of 0 \(entailment\), 1"),
    ("headerless", replaced(b"0\tHe", b"He"), r"train\.tsv line 1: .*(fields, expected 3|no column)"),
    ("tsv", replaced(b"\t0\t0\r\n", b"\t9\t0\r\n"), r"train\.tsv line 2: label '9' is not one of"),
    ("tsv", replaced(b"\t0\t0\r\n", b"\t0\r\n"), r"train\.tsv line 2: 3 fields, expected 4: sentence1, sentence2"),
    ("csv", replaced(b",0,0\r\n", b",9,0\r\n"), r"train\.csv line 2: label '9' is not one of"),
    ("csv", replaced(b",0,0\r\n", b",0\r\n"), r"train\.csv line 2: 3 fields, expected 4"),
    ("jsonl", replaced(b'"label": 0', b'"label": 9'), r"train\.jsonl line 1: label 9 is not one of"),
    ("jsonl", replaced(b"{", b""), r"train\.jsonl line 1: not JSON \("),
]


@pytest.mark.parametrize(("variant", "spoil", "says"), MISTAKES)
def test_every_broken_input_says_where(variant: str, spoil: Callable[[Path], None], says: str, home: Path) -> None:
    said = broken(home, variant, spoil)
    assert re.search(says, said), said


@pytest.mark.parametrize("variant", ["tsv", "csv", "jsonl", "parquet", "hub mirror"])
def test_a_score_that_is_no_number_is_named(variant: str, home: Path) -> None:
    def spoil(path: Path) -> None:
        if path.suffix == ".parquet":
            with_rows({"label": 5.5})(path)
        else:
            replaced(b"3.8", b"abc" if variant != "jsonl" else b'"abc"')(path)

    said = broken(home, variant, spoil, "stsb")
    assert "label" in said
    assert "is not a number from 0 to 5" in said


def test_a_short_line_of_cola_is_named(home: Path) -> None:
    said = broken(home, "official", lambda path: path.write_text("gj04\t1\t\tfine\ngj04\t0\n"), "cola")
    assert "train.tsv line 2: 2 fields, expected 4: source, label, star, sentence" in said


def test_a_missing_shard_is_named(home: Path) -> None:
    for variant in ("hub mirror", "hub cache"):
        said = broken(home / variant.replace(" ", "-") if "mirror" in variant else home, variant, Path.unlink)
        assert "rte: train is 2 files, but only 1 of them are there" in said


def test_without_data_and_network_the_way_out_is_said_at_once(home: Path) -> None:
    started = time.monotonic()
    with pytest.raises(DataError) as caught:
        load(glue_task("mrpc"), ["source=hub"])
    assert time.monotonic() - started < 5
    what = f"{GLUE} at revision {REVISION} could not be loaded: it is not in the hub's cache"
    assert caught.value.what == f"{what}, and HF_HUB_OFFLINE=1 forbids to fetch it"
    assert "unset HF_HUB_OFFLINE (with make: HF_HUB_OFFLINE=0), or hf download" in str(caught.value.fix)
    command = f"hf download {GLUE} --repo-type dataset --revision {REVISION} --include 'mrpc/*' --local-dir DIR/{GLUE}"
    assert command in caught.value.fix
    assert "source.mirror=DIR" in caught.value.fix
