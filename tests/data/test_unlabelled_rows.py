"""Rows of tasks beside the text of the general distillation: training rows alone, without labels, in the identity."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import content_hash
from spikelm.data.sources.unlabelled_rows import other_rows
from spikelm.data.tokens.encode import encode_rows, with_unlabelled
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import ConfigError
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.hashing import run_id

TRAIN = "sentence1\tsentence2\tlabel\nA man eats.\tThe man is eating.\t1\nDogs run.\tIt rains.\t0\nOne.\tTwo.\t1\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("train", TRAIN), ("dev", "sentence1\tsentence2\tlabel\nNever read.\tNor this.\t1\n")):
        (tmp_path / "glue" / "RTE").mkdir(parents=True, exist_ok=True)
        (tmp_path / "glue" / "RTE" / f"{name}.tsv").write_text(text)
    (tmp_path / "wikitext").mkdir()
    article = " \n = Title = \n \n First sentence here . Second sentence here . \n"
    for name in ("train", "valid"):
        (tmp_path / "wikitext" / f"{name}.txt").write_text(article * 3)
    return tmp_path / "glue"


def config(root: Path, *overrides: str) -> Config:
    return load_config(["task=general_distill", "source=local", f"source.root={root}", *overrides])


def test_training_rows_follow_the_articles(root: Path) -> None:
    source = config(root).source
    plain, more = load_documents(source), load_documents(source, task_rows=2)
    documents = list(more.splits["train"])
    articles = len(plain.splits["train"])
    assert documents[:articles] == list(plain.splits["train"])
    assert documents[articles:] == [["A man eats.", "The man is eating."], ["Dogs run.", "It rains."]]
    assert len(more.splits["train"]) == len(documents) == articles + more.task_rows
    assert list(more.splits["validation"]) == list(plain.splits["validation"])


def test_they_are_part_of_what_a_run_is(root: Path) -> None:
    def found(*overrides: str) -> str:
        return run_id(identity(config(root, *overrides)))

    plain, two, three = found(), found("general.task_rows=2"), found("general.task_rows=3")
    assert len({plain, two, three}) == 3
    train = root / "RTE" / "train.tsv"
    train.write_text(TRAIN.replace("It rains.", "It pours."))
    assert found() == plain
    assert found("general.task_rows=2") != two
    student = config(root, "task=glue/rte", "distill=general", "general.task_rows=2")
    assert run_id(identity(prerequisites(student)["pretrained"])) == found("general.task_rows=2")


def test_files_that_have_not_changed_are_not_read_again_to_tell_a_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(root / "RTE", root / "MRPC")
    mrpc = (root / "MRPC" / "train.tsv").read_text().replace("label", "Quality", 1)
    for name, text in (("train", mrpc), ("dev", mrpc)):
        (root / "MRPC" / f"{name}.tsv").write_text(
            text.replace("sentence1", "#1 String").replace("sentence2", "#2 String")
        )
    whole = config(root, "general.task_rows=2")
    student = config(root, "task=glue/rte", "distill=general", "general.task_rows=2", "distill.rows.other_tasks=2")
    found = [identity(one)["source"] for one in (whole, student)]
    assert found[0]["content"] == load_documents(whole.source, task_rows=2).content_hash
    assert found[1]["others"] == content_hash(other_rows(student.task, student.source, 2))
    monkeypatch.setattr("spikelm.data.sources.unlabelled_rows.load_rows", lambda *_: pytest.fail("read again"))
    assert [identity(one)["source"] for one in (whole, student)] == found


def test_mistakes_are_named(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"general\.task_rows=-1 is not valid"):
        config(root, "general.task_rows=-1")
    with pytest.raises(ConfigError, match=r"unknown key finetune\.task_rows"):
        config(root, "task=glue/rte", "finetune.task_rows=3")


def test_a_source_without_such_tasks_is_read_without_them(root: Path) -> None:
    shutil.rmtree(root / "RTE")
    text = load_documents(config(root).source, task_rows=2)
    assert list(text.splits["train"]) == list(load_documents(config(root).source).splits["train"])
    assert text.task_rows == 0
    assert any("general.task_rows adds nothing" in told for told in text.warnings)


def test_other_tasks_alike_give_rows_without_labels(root: Path) -> None:
    rte, stsb = config(root, "task=glue/rte"), config(root, "task=glue/stsb")
    assert other_rows(rte.task, rte.source, 2) == [], "the folder has no other task"
    assert other_rows(stsb.task, stsb.source, 2) == [["A man eats.", "The man is eating."], ["Dogs run.", "It rains."]]
    (root / "CoLA").mkdir()
    (root / "CoLA" / "train.tsv").write_text("x\t1\t\tOne sentence.\n")
    assert ["One sentence."] not in other_rows(stsb.task, stsb.source, 2), "a sentence alone is no pair"


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_rows_without_labels_follow_the_labelled_ones(kind: type) -> None:
    tokenizer = train_wordpiece(["a man eats", "the dog runs home"], 100)
    task = load_config(["task=glue/rte"]).task
    data = encode_rows(task, [{"sentence1": "a man", "sentence2": "eats", "label": 1}], tokenizer, 32)
    data = replace(data, labels=data.labels.astype(kind))
    joined = with_unlabelled(data, [["the dog", "runs"], ["home", "a"]], tokenizer, 32)
    assert len(joined) == 3
    assert joined.labels.dtype == kind
    assert (joined.labels >= 0).tolist() == [True, False, False]
    assert tokenizer.decode(joined.row(1)[0].tolist()) == "the dog runs"
    assert joined.row(0)[0].tolist() == data.row(0)[0].tolist()
