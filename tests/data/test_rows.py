"""Local files: every layout gives the hub's rows, every mistake is named with its file and line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from glue_files import OFFICIAL, write, write_as
from hypothesis import given, settings
from hypothesis import strategies as st

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.row_files import Layout, read_rows
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.errors import ConfigError, DataError

ROWS = [
    {"sentence1": 'He said "no', "sentence2": "It's, well, so.", "label": 0, "idx": 0},
    {"sentence1": "Überall\u2028 hier", "sentence2": ' "quoted" ', "label": 1, "idx": 1},
]


def config(root: Path, task: str = "rte", *overrides: str) -> Config:
    return load_config([f"task=glue/{task}", "source=local", f"source.root={root}", *overrides])


def load(root: Path, task: str = "rte", *overrides: str) -> LoadedText:
    found = config(root, task, *overrides)
    return load_rows(found.task, found.source)


@pytest.mark.parametrize("task", OFFICIAL)
def test_the_official_layout_of_every_task(task: str, tmp_path: Path) -> None:
    header, lines, labels = OFFICIAL[task]
    names = ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv") if task == "mnli" else ("train.tsv", "dev.tsv")
    write(tmp_path, [*([header] if header else []), *lines], task.upper(), names)
    text = load(tmp_path, task)
    columns = config(tmp_path, task).task.columns
    texts = [dict(zip(columns, pair, strict=False)) for pair in ("ab", "cd")]
    expected = [{**row, "label": label, "idx": i} for i, (row, label) in enumerate(zip(texts, labels, strict=True))]
    assert all(rows == expected for rows in text.splits.values())
    assert len(text.splits) == len(names)


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("named", [False, True])
def test_every_ending_gives_the_same_rows(ending: str, named: bool, tmp_path: Path) -> None:
    words = ("entailment", "not_entailment")
    rows = [{**row, "label": words[row["label"]] if named else row["label"]} for row in ROWS]
    (tmp_path / "rte").mkdir()
    for name in ("train", "validation"):
        write_as(ending, tmp_path / "rte" / f"{name}.{ending}", rows)
    text = load(tmp_path)
    assert text.splits == {"train": ROWS, "validation": ROWS}
    again = tmp_path / "again"
    (again / "rte").mkdir(parents=True)
    for name in ("train", "dev"):
        write_as("jsonl", again / "rte" / f"{name}.jsonl", ROWS)
    assert load(again).content_hash == text.content_hash


def test_a_csv_field_may_hold_a_line_end(tmp_path: Path) -> None:
    (tmp_path / "rte").mkdir()
    rows = [{"sentence1": "two\nlines", "sentence2": 'a "b"', "label": 1}]
    for name in ("train", "val"):
        write_as("csv", tmp_path / "rte" / f"{name}.csv", rows)
    assert load(tmp_path).splits["train"] == [{**rows[0], "idx": 0}]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "tsv"])
def test_a_mark_in_front_other_line_ends_and_empty_lines_change_nothing(tmp_path: Path, ending: str) -> None:
    rows = [{"question": 'Is "it", well, Ș 🙂?', "sentence": "a, b", "label": n % 2} for n in range(4)]
    (tmp_path / "QNLI").mkdir()
    for name in ("train", "dev"):
        path = tmp_path / "QNLI" / f"{name}.{ending}"
        write_as(ending, path, rows)
        lines = path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n")
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines[:2], "", *lines[2:], ""]).encode())
    text = load(tmp_path, "qnli")
    assert text.splits["train"] == [{**row, "idx": index} for index, row in enumerate(rows)]


@pytest.mark.parametrize("none", ["", "-", "-1", None, -1])
def test_rows_without_a_label_are_named_and_can_be_left_out(tmp_path: Path, none: str | int | None) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "gold_label": label} for label in ("neutral", none, "entailment")]
    (tmp_path / "MNLI").mkdir()
    for name in ("train", "dev_matched", "dev_mismatched"):
        write_as("jsonl", tmp_path / "MNLI" / f"{name}.jsonl", rows)
    with pytest.raises(DataError, match=r"train\.jsonl line 2: label .* is not one of 0 \(entailment\)") as caught:
        load(tmp_path, "mnli")
    assert "task.skip_broken=true" in caught.value.fix
    text = load(tmp_path, "mnli", "task.skip_broken=true")
    assert [row["label"] for row in text.splits["validation_mismatched"]] == [1, 0]
    assert any("1 rows without a label were left out" in told for told in text.warnings)


def test_a_label_that_a_task_does_not_have_is_never_left_out(tmp_path: Path) -> None:
    write(tmp_path, [HEAD, "0\ta\tb\tmaybe"])
    with pytest.raises(DataError, match="label 'maybe' is not one of") as caught:
        load(tmp_path, "rte", "task.skip_broken=true")
    assert not caught.value.fix


def test_a_regression_may_have_minus_one_but_not_nothing(tmp_path: Path) -> None:
    write(tmp_path, ["sentence1\tsentence2\tscore", "a\tb\t-1", "c\td\t"], "STS-B")
    free = ["task.score_range=[-2,5]", "task.skip_broken=true"]
    assert [row["label"] for row in load(tmp_path, "stsb", *free).splits["train"]] == [-1.0]


def test_the_files_may_lie_in_the_root_itself(tmp_path: Path) -> None:
    write(tmp_path, ["sentence\tlabel", "a\t1"], ".")
    assert load(tmp_path, "sst2").splits["train"] == [{"sentence": "a", "label": 1, "idx": 0}]
    (tmp_path / "other").mkdir()  # a root of several tasks: nothing says that these files are of this one
    with pytest.raises(DataError, match="no folder for glue/sst2"):
        load(tmp_path, "sst2")


def test_columns_by_other_names_are_said_and_a_wrong_name_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ["text\ty", "a\t1"], "SST-2")
    with pytest.raises(DataError, match="no column 'sentence', 'label'; the columns are 'text', 'y'") as caught:
        load(tmp_path, "sst2")
    assert "'task.file_columns={sentence: NAME, label: NAME}'" in caught.value.fix
    told = "task.file_columns={sentence: text, label: y}"
    assert load(tmp_path, "sst2", told).splits["train"] == [{"sentence": "a", "label": 1, "idx": 0}]
    with pytest.raises(ConfigError, match=r"task.file_columns has text, which is no column of glue/sst2"):
        load(tmp_path, "sst2", "task.file_columns={text: sentence}")


SPELLINGS = [("sst2", "SST-2"), ("sst2", "sst2"), ("sst2", "SST2"), ("sst2", "glue/sst_2"), ("sst2", "GLUE/SST-2")]


@pytest.mark.parametrize(("task", "folder"), [*SPELLINGS, ("sst2", "glue_data/SST-2")])
@pytest.mark.parametrize("dev", ["dev", "validation", "val", "DEV"])
def test_folders_and_splits_by_any_common_name(task: str, folder: str, dev: str, tmp_path: Path) -> None:
    write(tmp_path, ["sentence\tlabel", "a\t1"], folder, ("train.tsv", f"{dev}.tsv", "test.tsv"))
    assert load(tmp_path, task).splits["validation"] == [{"sentence": "a", "label": 1, "idx": 0}]


def test_parquet_shards_are_read_in_order_and_must_be_complete(tmp_path: Path) -> None:
    folder = tmp_path / "rte"
    folder.mkdir()
    write_as("parquet", folder / "validation-00000-of-00001.parquet", ROWS)
    for index in (1, 0):
        write_as("parquet", folder / f"train-0000{index}-of-00002.parquet", [ROWS[index]])
    assert load(tmp_path).splits["train"] == ROWS
    (folder / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(DataError, match="2 Parquet files, but only 1"):
        load(tmp_path)


def test_a_parquet_file_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "rte").mkdir()
    for name in ("train", "dev"):
        write_as("parquet", tmp_path / "rte" / f"{name}.parquet", [{"sentence1": "a", "label": 0}])
    with pytest.raises(DataError, match=r"train\.parquet: no column 'sentence2'; the columns are 'sentence1', 'label'"):
        load(tmp_path)


def test_limits_cut_after_the_count_is_compared(tmp_path: Path) -> None:
    write(tmp_path, ["sentence1\tsentence2\tlabel", *["a\tb\t0"] * 5])
    text = load(tmp_path, "rte", "source.train_rows=2")
    assert text.record(config(tmp_path).source)["rows"] == {"train": 2, "validation": 5}
    assert [w for w in text.warnings if "train has 5 rows, the official split has 2490" in w]
    right = load(tmp_path, "rte", "source.train_rows=2", "task.official_rows={train:5,validation:5}")
    assert not right.warnings


def test_rows_the_hub_leaves_out_are_left_out_and_counted(tmp_path: Path) -> None:
    header, lines, _ = OFFICIAL["qqp"]
    write(tmp_path, [header, lines[0], "77\t1\t2\tcut here", lines[1]], "QQP")
    text = load(tmp_path, "qqp")
    assert len(text.splits["train"]) == 2
    assert "1 rows with the wrong number of fields" in text.warnings[0]


HEAD = "index\tsentence1\tsentence2\tlabel"
MISTAKES: list[tuple[list[str], str]] = [
    ([HEAD, "0\ta\tb\t0", "1\ta\t0"], r"train\.tsv line 3: 3 fields, expected 4: index, sentence1"),
    (["index\tsentence1\ttext\tlabel", "0\ta\tb\t0"], r"train\.tsv line 1: no column 'sentence2'; .*'text'"),
    (["0\ta\tb\t0"], r"line 1: no column 'sentence1', 'sentence2', 'label'"),
    ([HEAD, "0\ta\tb\tmaybe"], r"line 2: label 'maybe' is not one of 0 \(entailment\), 1 \(not_entailment\)"),
    ([HEAD, "0\ta\tb\t2"], "line 2: label '2' is not one of"),
    ([HEAD, "0\ta\tb\t-1"], "line 2: label '-1' is not one of"),
    ([HEAD, "0\ta\tb\t0.5"], "line 2: label '0.5' is not one of"),
    ([HEAD, "0\ta\tb\tnan"], "line 2: label 'nan' is not one of"),
    ([HEAD], "no rows, only a header"),
]


@pytest.mark.parametrize(("lines", "says"), MISTAKES)
def test_a_mistake_names_file_line_and_expectation(lines: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        load(write(tmp_path, lines))


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
def test_empty_and_broken_files_are_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "rte" / f"train.{ending}"
    write(tmp_path, [], "rte", (f"train.{ending}", f"dev.{ending}"))
    path.write_bytes(b"")
    with pytest.raises(DataError, match=rf"train\.{ending} is empty"):
        load(tmp_path)
    path.write_bytes(b"sentence1\tsentence2\tlabel\na\t\xff\xfeb\t0\n" if ending == "tsv" else b"\xff\xfe{}\n")
    with pytest.raises(DataError, match="not a Parquet file" if ending == "parquet" else r"line \d: not UTF-8"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: a list, expected an object"),
        ('{"sentence1": "a", "label": 0}', "line 2: no column 'sentence2'; the columns are 'sentence1', 'label'"),
        ('{"sentence1": "a", "sentence2": null, "label": 0}', "line 2: sentence2 is None, expected text"),
        ('{"sentence1": "a", "sentence2": "b", "label": true}', "line 2: label True is not one of"),
    ],
)
def test_json_lines_are_checked(line: str, says: str, tmp_path: Path) -> None:
    good = '{"sentence1": "a", "sentence2": "b", "label": 0}'
    with pytest.raises(DataError, match=says):
        load(write(tmp_path, [good, line], "rte", ("train.jsonl", "dev.jsonl")))


def test_a_csv_quote_left_open_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv line \d: not CSV"):
        load(write(tmp_path, ["sentence1,sentence2,label", '"a,b,0'], "rte", ("train.csv", "dev.csv")))


def test_a_score_out_of_range_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: label '5\.1' is not a number from 0 to 5"):
        load(write(tmp_path, ["sentence1\tsentence2\tscore", "a\tb\t5.1"], "STS-B"), "stsb")


def test_missing_and_ambiguous_files_say_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "glue" / "MRPC").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no folder for glue/rte: looked for rte .*glue holds MRPC/"):
        load(tmp_path)
    write(tmp_path, [HEAD, "0\ta\tb\t0"], "RTE", ("train.tsv", "notes.txt"))
    with pytest.raises(DataError, match=r"no file for validation: looked for validation, dev.*notes\.txt, train\.tsv"):
        load(tmp_path)
    write(tmp_path, [HEAD, "0\ta\tb\t0"], "RTE", ("dev.tsv", "val.tsv"))
    with pytest.raises(DataError, match=r"more than one file for validation: dev\.tsv, val\.tsv"):
        load(tmp_path)
    write(tmp_path, [HEAD], "glue/rte")
    with pytest.raises(DataError, match="more than one folder"):
        load(tmp_path)


def test_the_config_is_checked_first(tmp_path: Path) -> None:
    for overrides, says in (
        (["source=local"], "needs source.root"),
        (["source=local", f"source.root={tmp_path}/no"], "is not a folder"),
        (["source=local", f"source.root={tmp_path}", "source.tokenizer=no/vocab.txt"], "does not exist"),
        ([f"source.root={tmp_path}"], "is for source=local"),
        (["source=locl"], "local"),
    ):
        with pytest.raises(ConfigError, match=says):
            load_config(overrides)


def test_a_relative_root_is_recorded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config(Path(".")).source.root == str(tmp_path)


TEXT = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_tsv_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("tsv") / "train.tsv"
    lines = ["sentence1\tsentence2\tlabel", *(f"{a}\t{b}\t0" for a, b in pairs)]
    path.write_bytes("\n".join(lines).encode())
    file_rows = read_rows(path, Layout({"sentence1": ("sentence1",), "sentence2": ("sentence2",)}))
    assert [tuple(row.values()) for _, row in file_rows.rows] == pairs


@pytest.mark.parametrize("task, read", [("glue/rte", load_rows), ("sum/xsum", load_text_pairs)])
def test_rows_that_are_left_out_are_counted_and_said(task: str, read: Callable[..., LoadedText]) -> None:
    asked = load_config([f"task={task}", "scale=smoke", "source.train_rows=5", "source.dev_rows=null"])
    whole = read(asked.task, replace(asked.source, train_rows=None))
    few = read(asked.task, asked.source)
    there = len(whole.splits["train"])
    assert (whole.left_out, whole.record("embedded").get("available")) == ("", None)
    assert few.record("embedded")["available"] == {"train": there}
    assert f"train 5 of {there:,}" in few.left_out
    assert "(source.train_rows=null reads all)" in few.left_out
    for split in asked.task.splits:
        assert len(few.splits[split]) == len(whole.splits[split])


def test_rows_of_a_folder_of_ones_own_are_counted_too(tmp_path: Path) -> None:
    for split, count in (("train", 7), ("validation", 4)):
        lines = "".join(f"one\tother {row}\t{row % 2}\n" for row in range(count))
        (tmp_path / f"{split}.tsv").write_text(f"sentence1\tsentence2\tlabel\n{lines}")
    asked = load_config(["task=glue/rte", "scale=smoke", f"task.files={tmp_path}", "source.train_rows=3"])
    text = load_rows(asked.task, asked.source)
    assert asked.rows_from == "local"
    assert text.record(asked.rows_from)["name"] == "local"
    assert text.left_out == "rows: train 3 of 7, validation 4 (source.train_rows=null reads all)"
