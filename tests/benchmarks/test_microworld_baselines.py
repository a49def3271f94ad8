"""Linear models on word counts: right on a toy where words tell, near chance on the micro-world."""

from __future__ import annotations

from typing import Any

import pytest

from spikelm.data.microworld import DEFAULT_ROWS, glue
from spikelm.data.microworld.baselines import COLUMNS, bag_of_words, constant, one_side

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
