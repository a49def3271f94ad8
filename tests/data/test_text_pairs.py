"""Pairs of texts from files and from the hub: every layout gives the same rows, every mistake is named by its place."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from glue_files import hub_cache, write_as

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.source_identity import source_identity
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.errors import ConfigError, DataError
from spikelm.runs.identity import identity
from spikelm.store.hashing import run_id

PAIRS = [
    ("The cat sleeps.", "Pisica doarme în grădină."),
    ('She said "no", twice.', "Ea a spus „nu” și țipă."),
    ("A", "Ș"),
]
REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


@cache
def base(task: str, *overrides: str) -> Config:
    return load_config([f"task={task}", "source=local", f"source.root={Path.cwd()}", *overrides])


def config(root: Path, *overrides: str, task: str = "mt/wmt16_enro") -> Config:
    """Composed once: only the folders differ."""
    found = base(task, *overrides)
    return replace(found, source=replace(found.source, root=str(root)), runs_dir=str(root.parent / "runs"))


def load(root: Path, *overrides: str, task: str = "mt/wmt16_enro") -> LoadedText:
    found = config(root, *overrides, task=task)
    return load_text_pairs(found.task, found.source)


def rows(columns: tuple[str, str] = ("en", "ro")) -> list[dict[str, Any]]:
    return [dict(zip(columns, pair, strict=True)) for pair in PAIRS]


def write_lines(folder: Path, endings: tuple[str, str], stems: tuple[str, ...] = ("train", "val", "test")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem in stems:
        for side, ending in enumerate(endings):
            text = "".join(f"{pair[side]}\n" for pair in PAIRS)
            (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder.parent


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "tsv"])
@pytest.mark.parametrize("folder", ["wmt16_en_ro", "WMT16-RO-EN", "translation/wmt16"])
def test_tables_and_lines_give_the_same_rows(tmp_path: Path, ending: str, folder: str) -> None:
    place = tmp_path / "root" / folder
    place.mkdir(parents=True)
    for name in ("train", "dev", "test"):
        write_as(ending, place / f"{name}.{ending}", rows())
    found = load(tmp_path / "root")
    assert found.splits["train"] == rows()
    for endings in (("en", "ro"), ("source", "target"), ("src", "tgt")):
        other = write_lines(tmp_path / endings[0] / "wmt16_enro", endings)
        assert load(other).content_hash == found.content_hash
        assert run_id(identity(config(other))) == run_id(identity(config(tmp_path / "root")))
    assert "the official split has 610320" in found.warnings[0]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_the_hubs_own_columns(tmp_path: Path, ending: str) -> None:
    for name, columns in (("wmt16", ("en", "ro")), ("cnn_dailymail", ("article", "highlights"))):
        place = tmp_path / name
        place.mkdir()
        told = [{"translation": row} for row in rows(columns)] if name == "wmt16" else rows(columns)
        for split in ("train", "validation", "test"):
            write_as(ending, place / f"{split}.{ending}", told)
    assert load(tmp_path).splits["test"] == rows()
    assert load(tmp_path, task="sum/cnn_dm").splits["train"] == rows(("document", "summary"))


LINE_FILES = [  # of a test, as sacrebleu, Moses, WMT and people call them; whether the names say that it is one
    ("test.en", "test.ro", True),
    ("test.en.txt", "test.ro.txt", True),
    ("test.en-ro.en", "test.en-ro.ro", True),
    ("test.src", "test.ref", True),
    ("en.txt", "ro.txt", False),
    ("newstest2016.en", "newstest2016.ro", False),
    ("wmt16.en-ro.src", "wmt16.en-ro.ref", False),
    ("newstest2016-enro-src.en", "newstest2016-enro-ref.ro", False),
]


@pytest.mark.parametrize(("sources", "targets", "says_so"), LINE_FILES)
@pytest.mark.parametrize("folder", ["wmt16", "."])
def test_a_test_of_ones_own_is_found(tmp_path: Path, sources: str, targets: str, says_so: bool, folder: str) -> None:
    place = tmp_path / "texts" / folder
    place.mkdir(parents=True)
    for side, name in enumerate((sources, targets)):
        (place / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    found = load(tmp_path / "texts", "~task.splits.validation")
    assert found.splits == {"test": rows()}
    told = f"mt/wmt16_enro test: the rows of {sources} and {targets}, the only ones there"
    assert (told in found.warnings) is not says_so


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "tsv"])
@pytest.mark.parametrize(
    ("columns", "override"),
    [
        (("source", "target"), None),
        (("src", "ref"), None),
        (("English", "Romanian"), "task.file_columns={en: English, ro: Romanian}"),
    ],
    ids=str,
)
def test_columns_by_other_names(tmp_path: Path, ending: str, columns: tuple[str, str], override: str | None) -> None:
    (tmp_path / "wmt16").mkdir()
    write_as(ending, tmp_path / "wmt16" / f"newstest2016.{ending}", rows(columns))
    overrides = ["~task.splits.validation", *([override] if override else [])]
    assert load(tmp_path, *overrides).splits == {"test": rows()}


def test_a_column_that_says_where_a_row_is_from_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "wmt16").mkdir()
    told = [{**row, "source": "newstest", "target": "tests"} for row in rows()]
    write_as("jsonl", tmp_path / "wmt16" / "test.jsonl", told)
    assert load(tmp_path, "~task.splits.validation").splits == {"test": rows()}
    write_as("jsonl", tmp_path / "wmt16" / "test.jsonl", [{k: row[k] for k in row if k != "ro"} for row in told])
    with pytest.raises(DataError, match="no column 'ro'") as caught:
        load(tmp_path, "~task.splits.validation")
    assert caught.value.fix.startswith("'task.file_columns={ro: NAME}'")


def test_a_table_without_a_header_is_read_by_the_columns_that_are_said(tmp_path: Path) -> None:
    (tmp_path / "wmt16").mkdir()
    (tmp_path / "wmt16" / "test.tsv").write_text("".join("\t".join(pair) + "\n" for pair in PAIRS), encoding="utf-8")
    with pytest.raises(DataError, match="no column 'en', 'ro'") as caught:
        load(tmp_path, "~task.splits.validation")
    assert "task.tsv_columns=" in caught.value.fix
    assert load(tmp_path, "~task.splits.validation", "task.tsv_columns=[en,ro]").splits == {"test": rows()}


def test_files_that_could_be_two_tests_are_none(tmp_path: Path) -> None:
    root = write_lines(tmp_path / "wmt16", ("en", "ro"), ("train", "dev", "newstest2015", "newstest2016"))
    with pytest.raises(DataError, match=r"no file for test: .*newstest2015\.en"):
        load(root)


def test_rows_to_train_on_may_be_missing_where_nothing_is_trained(tmp_path: Path) -> None:
    root = write_lines(tmp_path / "wmt16", ("en", "ro"), ("test",))
    with pytest.raises(DataError, match="no file for validation") as caught:
        load(root)
    assert caught.value.fix == "'~task.splits.validation' evaluates test alone"
    only_test = config(root, "~task.splits.validation")
    with pytest.raises(DataError, match="no file for train"):
        identity(only_test)
    told = source_identity(only_test.task, only_test.source, tmp_path / "cache", train=False)
    assert told["content"] == load(root, "~task.splits.validation").content_hash
    with pytest.raises(DataError, match=r"source\.tune holds training rows back"):
        load(root, "~task.splits.validation", "source.tune=true")


def test_limits_take_the_first_rows(tmp_path: Path) -> None:
    root = write_lines(tmp_path / "wmt16", ("en", "ro"))
    found = load(root, "source.train_rows=2", "source.dev_rows=1")
    assert {split: len(some) for split, some in found.splits.items()} == {"train": 2, "validation": 1, "test": 1}


def broken(root: Path, name: str, content: bytes) -> Path:
    (root / "wmt16" / name).write_bytes(content)
    return root


MISTAKES = [
    ("train.ro", b"Unu\nDoi\n", "train.en has 3 lines, .*train.ro has 2 lines"),
    ("train.ro", b"Unu\n\xff\nTrei\n", r"train.ro line 2: not UTF-8 \(byte 1"),
    ("train.ro", b"Unu\n  \nTrei\n", "train.en and train.ro line 2: ro is empty"),
    ("val.ro", b"", "val.en has 3 lines, .*val.ro has 0 lines"),
    ("train.jsonl", b'{"en": "a", "ro": "b"}\n', "more than one form of train: train.en, train.ro, train.jsonl"),
]


@pytest.mark.parametrize(("name", "content", "says"), MISTAKES)
def test_a_mistake_in_two_files_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    root = broken(write_lines(tmp_path / "wmt16", ("en", "ro")), name, content)
    with pytest.raises(DataError, match=says):
        load(root)


TABLE_MISTAKES = [
    ("train.jsonl", b'{"en": "a", "ro": "b"}\n{"en": "a"}\n', r"train.jsonl line 2: no column 'ro'"),
    (
        "train.jsonl",
        b'{"translation": {"en": "a", "de": "b"}}\n',
        r"line 1: no column 'ro'; the columns are 'en', 'de'",
    ),
    ("train.jsonl", b'{"en": "a", "ro": ""}\n', "train.jsonl line 1: ro is empty"),
    ("train.jsonl", b'{"en": "a", "ro": 3}\n', "line 1: ro is 3, expected text"),
    ("train.jsonl", b'{"en": \n', "line 1: not JSON"),
    ("train.csv", b"en,ro\na,b,c\n", "train.csv line 2: 3 fields, expected 2"),
    ("train.csv", b"en,de\na,b\n", "train.csv line 1: no column 'ro'"),
]


@pytest.mark.parametrize(("name", "content", "says"), TABLE_MISTAKES)
def test_a_mistake_in_a_table_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    root = write_lines(tmp_path / "wmt16", ("en", "ro"), ("val", "test"))
    with pytest.raises(DataError, match=says):
        load(broken(root, name, content))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder for mt/wmt16_enro: looked for wmt16enro or wmt16 or"):
        load(tmp_path)
    root = write_lines(tmp_path / "wmt16", ("en", "ro"), ("train", "val"))
    with pytest.raises(DataError, match=r"no file for test: looked for test with .*or two files, one with .*\.en "):
        load(root)
    (root / "wmt16" / "test.en").write_text("a\n")
    with pytest.raises(DataError, match=r"test is one file with .*\.ro, but there is test\.en"):
        load(root)


def test_empty_targets_can_be_left_out(tmp_path: Path) -> None:
    root = broken(write_lines(tmp_path / "wmt16", ("en", "ro")), "train.ro", b"Unu\n\nTrei\n")
    found = load(root, "task.skip_broken=true")
    assert len(found.splits["train"]) == 2
    assert any("1 rows with an empty ro were left out" in note for note in found.warnings)


def test_the_hub_is_read_from_a_mirror_and_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    mirror = tmp_path / "mirror"
    for split in ("train", "validation", "test"):
        for folder, told in (
            ("wmt/wmt16/ro-en", [{"translation": row} for row in rows()]),
            ("EdinburghNLP/xsum/data", [{**row, "id": "7"} for row in rows(("document", "summary"))]),
            ("abisee/cnn_dailymail/3.0.0", rows(("article", "highlights"))),
        ):
            path = mirror / folder / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_as("parquet", path, told)
    ids = set()
    for task, columns in (("mt/wmt16_enro", ("en", "ro")), ("sum/xsum", None), ("sum/cnn_dm", None)):
        here = load_config([f"task={task}", "source=hub", f"source.mirror={mirror}"])
        found = load_text_pairs(here.task, here.source)
        assert found.splits["validation"] == rows(columns or ("document", "summary"))
        assert run_id(identity(here)) == run_id(identity(load_config([f"task={task}", "source=hub"])))
        ids |= {
            run_id(identity(here)),
            run_id(identity(load_config([f"task={task}", "source=hub", "task.revision=main"]))),
        }
        folder = hub_cache(tmp_path / "home", here.task.repo, here.task.revision)
        folder.parent.mkdir(parents=True)
        shutil.move(mirror / here.task.repo, folder)
        cached = load_config([f"task={task}", "source=hub"])
        assert load_text_pairs(cached.task, cached.source).content_hash == found.content_hash
    assert len(ids) == 6


def test_the_embedded_rows_are_the_first_of_the_full_set() -> None:
    full, few = (load_config(["task=sum/xsum", *more]) for more in ([], ["source.train_rows=7", "source.dev_rows=3"]))
    texts = load_text_pairs(full.task, full.source), load_text_pairs(few.task, few.source)
    assert texts[1].splits["train"] == texts[0].splits["train"][:7]
    assert texts[0].record(full.source)["rows"] == {"train": 6000, "validation": 400, "test": 400}
    assert not texts[0].warnings
    json.dumps(identity(few))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("task.generate.beams=0", "at least 1"),
        ("+task.generate.beamz=2", "did you mean task.generate.beams"),
        ("task.generate.no_repeat_ngram=-1", "at least 0"),
        ("task.generate.min_length=99", "is above task.generate.max_length"),
        ("task.generate.length_penalty=x", "it is a number"),
        ("task.target_length=1", "at least 3"),
        ("task.columns=[document]", "the source and the target"),
        ("task.languages=[en_XX]", "none or two"),
        ("task.metrics=[rouge]", "choose among: rouge1, rouge2, rougeL"),
    ],
)
def test_a_mistake_in_a_task_is_refused(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(["task=sum/xsum", override])


def test_the_papers_settings() -> None:
    wanted = {"sum/xsum": (3.5e-4, 6, 11, 62, 1), "sum/cnn_dm": (7e-4, 4, 56, 142, 2)}
    for task, (lr, *told) in {**wanted, "mt/wmt16_enro": (1e-4, 5, 0, 128, 1)}.items():
        found = load_config(["scale=paper", f"task={task}", "recipe=paper"])
        stage, generate = found.finetune, found.task.generate
        assert (stage.epochs, stage.batch, stage.lr) == (20, 128, lr)
        assert (stage.schedule.warmup, stage.schedule.shape) == (0.05, "linear")
        assert [generate.beams, generate.min_length, generate.max_length, generate.length_penalty] == told
        assert (found.task.source_length, found.task.target_length) == (1024, 128)


@pytest.mark.skipif(not (REAL / "xsum").is_dir(), reason="no published data beside the project")
def test_the_published_pairs() -> None:
    news = load(REAL, task="sum/xsum")
    assert {split: len(some) for split, some in news.splits.items()} == {"train": 761, "validation": 250, "test": 500}
    pairs = load(REAL)
    assert {split: len(some) for split, some in pairs.splits.items()} == {
        "train": 18248,
        "validation": 1999,
        "test": 1999,
    }
    assert len(pairs.warnings) == 1, "validation and test are the official ones"
