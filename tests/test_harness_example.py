"""The task in examples/lm_eval: its rows are those that its script draws, and their answers are true."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spikelm.data import microworld

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "lm_eval"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("microworld_rows", FOLDER / "microworld.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / "microworld.jsonl").read_text().splitlines()]


def test_the_rows_are_those_of_the_script(script: ModuleType) -> None:
    assert rows() == script.rows(), "python examples/lm_eval/microworld.py"
    assert script.dataset(run="x")["test"].to_list() == rows()


def test_each_row_has_four_answers_and_tells_the_right_one_and_a_wrong_one() -> None:
    for row in rows():
        told, question = row["text"].rsplit(" . ", 1)
        assert question.endswith("?")
        assert len(set(row["choices"])) == 4
        named = [choice.removesuffix(" .").removeprefix("the ") for choice in row["choices"]]
        assert named[row["answer"]] in told
        assert any(name in told for index, name in enumerate(named) if index != row["answer"])
    assert max(Counter(row["answer"] for row in rows()).values()) <= 14, "no place is right much more often"


def test_the_words_are_those_of_the_embedded_corpus() -> None:
    known = set(" ".join(" ".join(document) for document in microworld.documents(2000)).split())
    for row in rows():
        assert set(" ".join([row["text"], *row["choices"]]).split()) <= known


def test_the_rows_are_no_part_of_the_corpus() -> None:
    corpus = "\n".join(" ".join(document) for document in microworld.documents(2000))
    assert not any(row["text"] in corpus for row in rows())
