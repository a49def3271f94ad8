"""Fixed rows of a large corpus: as many documents are read as they need, and the rows are those of a whole reading."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from spikelm.data.batches import blocks
from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import step_seed
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.batches.masked_blocks import MaskedBatches
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.data.batches.sentences import SentenceBatches
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.wordpiece import train_wordpiece

TOKENIZER = train_wordpiece(["the cat sat on the mat", "a dog ran home"], 100)
DOCUMENTS, COUNT = 3000, 64


@dataclass(frozen=True)
class CountedDocuments(PackedDocuments):
    """Documents that note which of them were looked at."""

    asked: list[int] = field(default_factory=list)

    def bounds(self, index: int) -> list[int]:
        self.asked.append(index)
        return super().bounds(index)


def counted() -> CountedDocuments:
    rng = np.random.default_rng(0)
    packed = PackedDocuments.of(
        [rng.integers(5, 90, rng.integers(1, 20)).astype(np.int32) for _ in range(rng.integers(1, 6))]
        for _ in range(DOCUMENTS)
    )
    return CountedDocuments(packed.ids, packed.sentences, packed.documents)


@pytest.mark.parametrize("make", [SentenceBatches, CausalBatches, MaskedBatches, PretrainingBatches])
def test_fixed_rows_read_no_more_than_they_need(make: type[BlockBatches], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    documents = counted()
    batches = make(documents, TOKENIZER, 0, 16, 32)  # type: ignore[arg-type]
    documents.asked.clear()
    assert sum(len(batch["input_ids"]) for batch in batches.fixed(COUNT)) == COUNT
    assert len(documents.asked) <= 4 * COUNT, "a document has a row or more, most of them; NSP reads a stranger as well"


@pytest.mark.parametrize("make", [SentenceBatches, CausalBatches, MaskedBatches])
def test_fewer_rows_are_the_first_of_the_whole_reading(make: type[BlockBatches]) -> None:
    batches = make(counted(), TOKENIZER, 0, 16, 32)  # type: ignore[arg-type]
    seed = step_seed(0, 0, f"fixed {batches.purpose}")
    whole = batches.draw(np.random.default_rng(seed), None)
    assert len(whole) > DOCUMENTS // 2
    for count in (1, COUNT, len(whole)):
        assert np.array_equal(batches.draw(np.random.default_rng(seed), count), whole[:count])
    twice = batches.draw(np.random.default_rng(seed), len(whole) + 5)
    assert np.array_equal(twice[: len(whole)], whole), "a second reading goes on behind the first"
    assert len(twice) == len(whole) + 5
