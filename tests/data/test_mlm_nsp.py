"""Sentence pairs and masking: next sentences are next, strangers are strangers, masks follow 15% and 80/10/10."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spikelm.data.batches.by_step import IGNORED
from spikelm.data.batches.mlm_nsp import PretrainingBatches, draw_nsp_pairs, mask_tokens
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import DataError

SPECIALS = torch.tensor([0, 2, 3])


def documents(count: int = 12, sentences: int = 6) -> PackedDocuments:
    """Token = 1000 * document + 10 * sentence + position: a token tells where it is from."""
    tokens = np.arange(4, dtype=np.int32)
    return PackedDocuments.of(
        [[tokens + 1000 * (d + 1) + 10 * s for s in range(sentences)] for d in range(count)],
    )


def test_pairs_follow_or_come_from_another_document() -> None:
    pairs = draw_nsp_pairs(documents(), 24, np.random.default_rng(0), 400)
    assert len(pairs) == 400
    assert 0.4 < pairs[:, 4].mean() < 0.6
    ids = documents().ids
    for start, end, begin, stop, label in pairs:
        a, b = ids[start:end], ids[begin:stop]
        assert 0 < len(a) + len(b) <= 21
        assert len({*(a // 1000)}) == len({*(b // 1000)}) == 1
        if label:
            assert a[0] // 1000 != b[0] // 1000
        else:
            assert a[0] // 1000 == b[0] // 1000
            assert b[0] // 10 == a[-1] // 10 + 1, "b starts where a ends"


def test_masking_shares() -> None:
    ids = torch.randint(4, 500, (400, 64))
    ids[:, 0], ids[:, -1] = 2, 3
    masked, labels = mask_tokens(ids, SPECIALS, mask=1, vocab=500, seed=3)
    chosen = labels != IGNORED
    assert chosen[:, 1:-1].float().mean() == pytest.approx(0.15, abs=0.01)
    assert not chosen[:, 0].any()
    assert not chosen[:, -1].any()
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(masked[~chosen], ids[~chosen])
    assert (masked[chosen] == 1).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (masked[chosen] == ids[chosen]).float().mean() == pytest.approx(0.1, abs=0.02)


def batches(seed: int = 0) -> PretrainingBatches:
    tokenizer = train_wordpiece(["a few words to train on"], 50)
    return PretrainingBatches(documents(), tokenizer, seed, batch=8, max_length=24)


def test_a_step_is_always_the_same_batch() -> None:
    first, second = batches(), batches()
    far = first.steps_per_epoch * 2 + 1
    late = first[far]  # straight to the third epoch
    for step in range(far + 1):
        walked = second[step]
    assert all(torch.equal(late[name], walked[name]) for name in late)
    assert not torch.equal(batches(1)[0]["input_ids"], batches(0)[0]["input_ids"])


def test_masks_are_drawn_anew_each_time() -> None:
    some = batches()
    pairs = some._rows[:8]
    a, b = (some.batch_of(pairs, seed)["labels"] for seed in (1, 2))
    assert not torch.equal(a, b)


def test_one_document_cannot_give_strangers() -> None:
    tokenizer = train_wordpiece(["a few words"], 50)
    with pytest.raises(DataError, match="two documents"):
        PretrainingBatches(documents(1), tokenizer, 0, 8, 24)
