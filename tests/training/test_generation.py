"""Evaluation by generated text: progress, samples, notes, with a model that says what it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from spikelm.training.generation import SAMPLES, SHORT, Generator, ProgressLines, Split, ended

PAD, START, END = 1, 2, 3
WORDS = {4: "pisica", 5: "doarme", 6: "câinele"}


def spoken(ids: Sequence[int]) -> str:
    return " ".join(WORDS.get(i, "") for i in ids).strip()


class Speaker:
    """Says for each row the words that its source asks for."""

    config = SimpleNamespace(pad_token_id=PAD)
    device = torch.device("cpu")

    def eval(self) -> Speaker:
        return self

    def generate(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Tensor:
        assert options == {"num_beams": 2}
        end = torch.full((len(input_ids), 1), END)
        return torch.cat([torch.full_like(end, START), input_ids, end, torch.full_like(end, PAD)], dim=1)


def batch(rows: list[int], words: list[list[int]]) -> dict[str, Tensor]:
    ids = torch.tensor(words)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "rows": torch.tensor(rows)}


def generator(references: list[list[str]], **more: Any) -> Generator:
    suffixes = ("", "_test")
    splits = [
        Split(suffix, [f"source {row}" for row in range(len(texts))], texts)
        for suffix, texts in zip(suffixes, references, strict=False)
    ]
    found = Generator(
        ("bleu", "chrf"), splits, {"num_beams": 2}, lambda ids: " ".join(WORDS.get(i, "") for i in ids).strip(), **more
    )
    found.start()
    return found


def test_rows_come_back_in_order_with_scores_lengths_and_notes() -> None:
    made = generator([["pisica doarme", "câinele doarme"], ["pisica pisica"]])
    assert made.scores() == {}, "nothing was generated"
    made.generate(Speaker(), batch([1, 0], [[6, 5], [4, 5]]), 0)
    assert set(made.scores()) == {"bleu", "chrf"}, "the second split is not there yet"
    made.generate(Speaker(), batch([0], [[9, 9]]), 1)
    found = made.scores()
    assert found["chrf"] == pytest.approx(100)
    assert found["bleu_test"] == 0
    assert made.samples() == [
        {"source": "source 0", "reference": "pisica doarme", "generated": "pisica doarme"},
        {"source": "source 1", "reference": "câinele doarme", "generated": "câinele doarme"},
    ]
    assert made.lengths == [(2, 3), (2, 3)], "two words and their end; the start token is given"
    assert made.notes["bleu"].startswith("nrefs:1|case:mixed")
    assert made.notes["empty_test"] == "1 of 1 predictions are empty"
    assert "empty" not in made.notes


@pytest.mark.parametrize("beams", [1, 3])
def test_a_text_ends_with_its_source(beams: int) -> None:
    """Of sources with 4 and 1 tokens: texts of 10 + 1.5 * 4 = 16 and 10 + 1.5 = 11 tokens behind the start."""
    assert SHORT == 10
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
    (longest,) = ended(mask, 1.5)["stopping_criteria"]
    ends = {length: longest(torch.zeros(2 * beams, 1 + length), None).tolist() for length in (10, 11, 15, 16)}
    none, short, both = ([first] * beams + [second] * beams for first, second in ((0, 0), (0, 1), (1, 1)))
    assert ends == {10: none, 11: short, 15: short, 16: both}
    assert ended(mask, 0.0) == {}


def test_few_samples_are_kept() -> None:
    made = generator([["pisica"] * (SAMPLES + 4)])
    made.generate(Speaker(), batch(list(range(SAMPLES + 4)), [[4]] * (SAMPLES + 4)), 0)
    assert len(made.samples()) == SAMPLES
    notes = made.scores() and made.notes
    made.again(Speaker(), batch([0, 1], [[5], [6]]))
    assert [sample["generated"] for sample in made.samples()] == ["doarme", "câinele"]
    assert len(made.lengths) == 2
    assert made.notes == notes != {}


def test_progress_is_told_a_tenth_at_a_time_and_anew_each_time() -> None:
    console = Console(record=True, width=100)
    made = generator([["pisica"] * 30, ["doarme"] * 10], progress=ProgressLines(console, "mt/wmt16_enro"))
    for _ in range(2):
        made.start()
        for row in range(30):
            made.generate(Speaker(), batch([row], [[4]]), 0)
        for row in range(10):
            made.generate(Speaker(), batch([row], [[5]]), 1)
    lines = console.export_text().splitlines()
    assert len(lines) == 20
    assert lines[0].startswith("mt/wmt16_enro: 4 of 40 texts generated, ")
    assert lines[9].rstrip() == "mt/wmt16_enro: 40 of 40 texts generated"
    assert lines[10].startswith("mt/wmt16_enro: 4 of 40 ")
