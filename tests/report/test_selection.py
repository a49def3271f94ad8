"""What a report says it was made of: settings that make other runs are named, those that do not are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.report.query.selection import Selection


@pytest.mark.parametrize("words", [("trainer=cpu",), ("trainer.threads=3", "trainer.keep_heap=true")])
def test_what_leaves_the_runs_the_same_is_not_said(words: tuple[str, ...], tmp_path: Path) -> None:
    selection = Selection(scale="smoke", root=tmp_path, overrides=words)
    assert selection.where == "scale=smoke, source=embedded, seed 42"
    assert selection.suffix == "smoke-embedded", "the same file: its numbers are of the same runs"


@pytest.mark.parametrize("word", ["trainer.precision=bf16-mixed", "trainer.compile=neurons", "finetune.lr=3e-4"])
def test_what_makes_other_runs_is_said_and_makes_another_file(word: str, tmp_path: Path) -> None:
    selection = Selection(scale="smoke", root=tmp_path, overrides=("trainer.threads=1", word))
    assert selection.where == f"scale=smoke, source=embedded, {word}, seed 42"
    assert selection.suffix.startswith("smoke-embedded-")


def test_other_seeds_make_another_file(tmp_path: Path) -> None:
    seeds = (1, 2, 3)
    assert Selection(scale="smoke", root=tmp_path, seeds=seeds).suffix == "smoke-embedded-s1+2+3"
