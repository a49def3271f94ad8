"""Sentences for the general distillation: by step, singles and pairs, cut to length."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spikelm.data.batches.sentences import SHORTEST, SentenceBatches
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import DataError

TOKENIZER = train_wordpiece(["the cat sat on the mat", "a dog ran home"], 100)
CLS, SEP = TOKENIZER.token_to_id("[CLS]"), TOKENIZER.token_to_id("[SEP]")


def documents(count: int = 12, sentences: int = 7) -> PackedDocuments:
    """Every token names its document and sentence, so that rows can be traced back."""
    rng = np.random.default_rng(0)
    return PackedDocuments.of(
        [np.full(int(rng.integers(SHORTEST, 20)), 1000 + 100 * d + s, np.int32) for s in range(sentences)]
        for d in range(count)
    )


def made(seed: int = 0, batch: int = 4, max_length: int = 32, **more: object) -> SentenceBatches:
    return SentenceBatches(documents(), TOKENIZER, seed, batch, max_length, **more)  # type: ignore[arg-type]


def test_rows_are_sentences_or_neighbours_of_one_document() -> None:
    train = made(max_length=64)
    seen: list[int] = []
    kinds = set()
    for step in range(train.steps_per_epoch):
        batch = train[step]
        for ids, types, mask in zip(*(batch[name] for name in ("input_ids", "token_type_ids", "attention_mask"))):  # noqa: B905
            row, segments = ids[mask.bool()].tolist(), types[mask.bool()].tolist()
            assert row[0] == CLS
            assert row[-1] == SEP
            marks = [i for i, token in enumerate(row) if token == SEP]
            names = [row[1]] if len(marks) == 1 else [row[1], row[marks[0] + 1]]
            assert segments == [0] * (marks[0] + 1) + [1] * (len(row) - marks[0] - 1)
            if len(names) == 2:
                assert names[1] == names[0] + 1, "the second follows the first"
            kinds.add(len(names))
            seen += names
    assert kinds == {1, 2}
    assert sorted(seen) == sorted(int(s[0]) for d in documents() for s in d), "every sentence once an epoch"


def test_a_step_depends_on_seed_and_step_alone() -> None:
    one, other = made(), made()
    last = one.steps_per_epoch + 2  # into the second epoch
    for step in (0, last, 3):
        for name, tensor in one[step].items():
            assert torch.equal(tensor, other[step][name])
    assert not torch.equal(one[0]["input_ids"], made(seed=1)[0]["input_ids"])


def test_shards_are_the_whole_batch() -> None:
    whole, halves = made(), [made(shard=(rank, 2)) for rank in (0, 1)]
    rows = sorted(ids[ids > 0].tolist() for ids in whole[1]["input_ids"])
    assert rows == sorted(ids[ids > 0].tolist() for half in halves for ids in half[1]["input_ids"])


def test_rows_fit_and_fixed_ones_stay() -> None:
    train = made(max_length=16)
    assert max(train[step]["input_ids"].shape[1] for step in range(train.steps_per_epoch)) <= 16
    fixed = train.fixed(10)
    assert sum(len(batch["input_ids"]) for batch in fixed) == 10
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(fixed, train.fixed(10), strict=True))


def test_text_without_a_sentence_is_refused() -> None:
    with pytest.raises(DataError, match="no sentence"):
        SentenceBatches(PackedDocuments.of([[np.array([5], np.int32)]]), TOKENIZER, 0, 4, 32)


def test_rows_of_tasks_stay_whole_and_pairs_come_in_both_orders() -> None:
    articles = [[np.full(6, 10 * d + s, np.int32) for s in range(4)] for d in range(1, 4)]
    pair, single, short = [np.full(5, 500), np.full(40, 501)], [np.full(2, 600)], [np.full(30, 700), np.full(30, 701)]
    packed = PackedDocuments.of([*articles, pair, single, short])
    train = SentenceBatches(packed, TOKENIZER, 0, 4, 32, task_rows=3)
    rows = [ids[ids > 0].tolist() for step in range(train.steps_per_epoch) for ids in train[step]["input_ids"]]
    of_tasks = sorted(row for row in rows if max(row) >= 500)
    # 32 - 3 tokens of room: a short part leaves the rest to the long one, two long ones get 14 each
    expected = [
        [CLS, *[500] * 5, SEP, *[501] * 24, SEP],
        [CLS, *[501] * 24, SEP, *[500] * 5, SEP],
        [CLS, 600, 600, SEP],
        [CLS, *[700] * 14, SEP, *[701] * 14, SEP],
        [CLS, *[701] * 14, SEP, *[700] * 14, SEP],
    ]
    assert of_tasks == sorted(expected)
