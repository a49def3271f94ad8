"""Random data files: each is read, or refused with one clear line and code 2 (more of them in tests/faults)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_files import BYTES, CONTENT, examined, examined_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.measure.metrics import constant_predictor

FAST = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_wordpiece(["a b c d e f g."], 60)


@FAST
@given(BYTES)
def test_a_table_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, file: tuple[str, bytes]
) -> None:
    assert examined(tmp_path_factory.mktemp("files"), *file, tokenizer)


@FAST
@given(st.binary(max_size=500) | CONTENT.map(lambda content: content[1].encode("utf-8", "replace")))
def test_a_text_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, content: bytes
) -> None:
    assert examined_text(tmp_path_factory.mktemp("files") / "text", content, tokenizer)


def row(first: str, label: str = "0") -> bytes:
    return f'{{"sentence1": {first}, "sentence2": "b", "label": {label}}}'.encode()


#: what once ended with a traceback, and what is easily got wrong
CASES = {
    "a lone surrogate": (".jsonl", row('"\\ud800"'), "surrogate"),
    "a number of 5,000 digits": (".jsonl", row('"a"', "9" * 5000), "line 1"),
    "brackets without end": (".jsonl", b"[" * 100_000, "line 1"),
    "NULs": (".tsv", b"sentence1\tsentence2\tlabel\na\x00b\tc\t1\n", "read"),
    "a line of a megabyte": (".tsv", b"sentence1\tsentence2\tlabel\n" + b"a " * 500_000 + b"\tc\t1\n", "read"),
    "UTF-16": (".tsv", "sentence1\tsentence2\tlabel\na\tb\t1\n".encode("utf-16"), "not UTF-8"),
    "Latin-1": (".csv", "sentence1,sentence2,label\né,b,1\n".encode("latin-1"), "not UTF-8"),
    "no rows": (".tsv", b"sentence1\tsentence2\tlabel\n", "no rows"),
    "nothing": (".csv", b"", "empty"),
    "one class": (".tsv", b"sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t1\n", "read"),
    "a list for a text": (".jsonl", row('["a"]'), "expected text"),
}


@pytest.mark.parametrize("case", CASES)
def test_hard_cases(case: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    ending, content, says = CASES[case]
    assert says in examined(tmp_path, ending, content, tokenizer)


def test_one_class_has_scores_all_the_same() -> None:
    import torch

    found = constant_predictor(torch.ones(8, dtype=torch.long), ["accuracy", "f1", "matthews"], 2, False)
    assert found["accuracy"] == 100
    assert found["matthews"] == 0, "undefined: scored as chance"


def test_a_long_value_is_cut_in_the_message(tmp_path: Path, tokenizer: Tokenizer) -> None:
    content = b"sentence1\tsentence2\tlabel\na\tb\t" + b"x" * 10_000 + b"\n"
    said = examined(tmp_path, ".tsv", content, tokenizer)
    assert "line 2: label 'xxx" in said
    assert len(said) < 1000
