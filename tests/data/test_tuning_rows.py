"""source.tune: settings are chosen on every tenth training row, which is not trained on; no other row is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.source_identity import source_identity
from spikelm.data.sources.unlabelled_rows import other_rows, task_row_documents
from spikelm.errors import ConfigError
from spikelm.runs.identity import id_of
from spikelm.runs.labels import label

HEADER = "sentence1\tsentence2\tlabel\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "RTE").mkdir()
    for name, count in (("train", 25), ("dev", 7)):
        lines = "".join(f"{name} {row}\tother {row}\t{row % 2}\n" for row in range(count))
        (tmp_path / "RTE" / f"{name}.tsv").write_text(HEADER + lines)
    return tmp_path


def config(root: Path, *overrides: str, task: str = "glue/rte") -> Config:
    return load_config([f"task={task}", "source=local", f"source.root={root}", *overrides])


def load(asked: Config) -> LoadedText:
    return load_rows(asked.task, asked.source)


def firsts(text: LoadedText, split: str) -> list[str]:
    return [row["sentence1"] for row in text.splits[split]]


def test_every_tenth_training_row_is_held_out(root: Path) -> None:
    text = load(config(root, "source.tune=true"))
    assert firsts(text, "validation") == ["train 9", "train 19"]
    assert firsts(text, "train") == [f"train {row}" for row in range(25) if row not in (9, 19)]
    assert not text.left_out


def test_the_first_rows_are_taken_before_the_tenth(root: Path) -> None:
    text = load(config(root, "source.tune=true", "source.train_rows=20", "source.dev_rows=1"))
    assert firsts(text, "validation") == ["train 9"]
    assert text.rows == {"train": 18, "validation": 1}
    assert text.left_out == "rows: train 18 of 25, validation 1 (source.train_rows=null reads all)"


def test_rows_without_labels_leave_the_held_out_ones_out(root: Path) -> None:
    source = config(root, "source.tune=true").source
    for documents in (
        task_row_documents(source, 15),
        other_rows(config(root, task="glue/mrpc").task, source, 15),
    ):
        assert [first for first, _ in documents] == [f"train {row}" for row in range(15) if row != 9]


def test_a_run_for_tuning_is_another_run_and_says_so(root: Path) -> None:
    tuned, reported = config(root, "source.tune=true"), config(root)
    assert source_identity(tuned.task, tuned.source, root) != source_identity(reported.task, reported.source, root)
    assert (tuned.rows_from, reported.rows_from) == ("local-tune", "local")
    assert "local-tune" in label(tuned)


def test_no_row_of_the_reported_split_decides_a_run_for_tuning(root: Path) -> None:
    before = load(config(root, "source.tune=true")).content_hash
    (root / "RTE" / "dev.tsv").write_text(HEADER + "new\trow\t1\n")
    assert load(config(root, "source.tune=true")).content_hash == before


@pytest.mark.parametrize("task, differs", [("pretrain", False), ("glue/rte", True)])
def test_embedded_text_is_pretrained_on_once(task: str, differs: bool) -> None:
    words = [f"task={task}", "scale=smoke", "neuron=lif"]
    assert (id_of(load_config(words)) != id_of(load_config([*words, "source.tune=true"]))) == differs


def test_running_text_has_no_rows_to_hold_out() -> None:
    with pytest.raises(ConfigError, match=r"source\.tune"):
        load_config(["task=lm/embedded", "scale=smoke", "source.tune=true"])
