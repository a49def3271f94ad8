"""Baselines without learning: linear models are right on a toy where words tell, and nothing solves the micro-world."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.microworld_baselines import (
    COLUMNS,
    bag_of_words,
    constant,
    dictionary,
    lead,
    one_side,
    text_scores,
    word_for_word,
)
from spikelm.data.microworld import DEFAULT_ROWS, glue

TOY = [{"a": word, "b": "x", "label": label} for word, label in (("yes", 1), ("no", 0)) for _ in range(10)]


def rows(task: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A reduced train and validation split."""
    dev = "validation_matched" if task == "mnli" else "validation"
    splits = glue(task, rows=dict.fromkeys(DEFAULT_ROWS[task], 0) | {"train": 3000, dev: 1500})
    return splits["train"], splits[dev]


def test_words_that_tell_the_label_are_found() -> None:
    assert bag_of_words(TOY, TOY, ["a", "b"]) == 100.0
    assert bag_of_words(TOY, TOY, ["a", "b"], "mcc", joint=True) == 100.0
    assert one_side(TOY, TOY, "b") == 50.0
    assert constant(TOY, TOY) == 50.0
    assert constant(TOY, TOY, "f1") == pytest.approx(200 / 3)
    assert constant(TOY, TOY, "mcc") == 0.0


@pytest.mark.parametrize("task", ["mnli", "qnli", "rte"])
def test_one_text_alone_says_nothing(task: str) -> None:
    train, dev = rows(task)
    chance = 100 / len({row["label"] for row in train})
    for column in COLUMNS[task]:
        assert one_side(train, dev, column) < chance + 4


@pytest.mark.parametrize(
    ("task", "metric", "most"),
    [("mnli", "accuracy", 55), ("qnli", "accuracy", 62), ("rte", "accuracy", 60), ("cola", "mcc", 25)],
)
def test_word_counts_do_not_solve_the_task(task: str, metric: str, most: float) -> None:
    train, dev = rows(task)
    assert bag_of_words(train, dev, COLUMNS[task], metric) < most


def test_first_sentences_are_no_summary() -> None:
    for task, most in (("xsum", 15), ("cnn_dm", 25)):
        for name in ("lead", "last"):
            assert text_scores(task)[name]["rougeL"] < most, (task, name)
    assert text_scores("xsum")["another's"]["rouge2"] < 50, "the shape of a summary is not its content"
    # 16 trades and 16 towns: who knows how summaries look and nothing else is right once in 16 times
    assert text_scores("xsum")["another's"]["entity_accuracy"] == pytest.approx(100 / 16, abs=2.5)


def test_a_dictionary_is_no_translator() -> None:
    scores = text_scores("wmt16_enro")
    assert scores["word for word"]["bleu"] < 30
    assert scores["copy"]["bleu"] < scores["word for word"]["bleu"]


def test_the_dictionary_knows_its_words() -> None:
    words = dictionary()
    assert word_for_word("The cats are sleeping in front of the house.", words) == "Pisici sunt doarme în fața casă."
    assert lead("One. Two! Three.", 2) == "One.\nTwo!"
