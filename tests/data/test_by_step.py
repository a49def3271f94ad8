"""Batches by step: every row once an epoch, the same batch for the same step, resumable anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spikelm.data.batches.by_step import RowBatches, epoch_order, evaluation_batches, pad, step_seed
from spikelm.data.tokens.encode import EncodedRows


def encoded(lengths: list[int]) -> EncodedRows:
    ids = np.concatenate([np.full(length, index + 1, np.int32) for index, length in enumerate(lengths)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedRows(ids, np.zeros_like(ids, np.int8), offsets, np.arange(len(lengths), dtype=np.int64))


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=200),
    batch=st.integers(1, 17),
    seed=st.integers(0, 9),
    epoch=st.integers(0, 3),
)
def test_an_epoch_holds_every_row_once(lengths: list[int], batch: int, seed: int, epoch: int) -> None:
    order = epoch_order(np.array(lengths), batch, seed, epoch)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(lengths)))
    assert len(order) == -(-len(lengths) // batch)
    again = epoch_order(np.array(lengths), batch, seed, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(order, again, strict=True))


def test_epochs_and_seeds_differ() -> None:
    lengths = np.full(64, 5)
    first = [np.concatenate(epoch_order(lengths, 8, seed, epoch)).tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert first[0] != first[1] != first[2] != first[0]


def test_padding_is_masked_and_labels_follow_their_rows() -> None:
    data = encoded([2, 5, 3])
    batch = RowBatches(data, seed=0, batch=3)[0]
    for row in range(3):
        label = int(batch["labels"][row])
        kept = batch["input_ids"][row][batch["attention_mask"][row] == 1]
        assert kept.tolist() == [label + 1] * [2, 5, 3][label]
        assert (batch["input_ids"][row][batch["attention_mask"][row] == 0] == 0).all()


def test_a_loader_that_starts_late_gives_the_rest_of_the_whole_one() -> None:
    batches = RowBatches(encoded([3] * 10), seed=1, batch=4)
    whole = [batch["labels"].tolist() for batch in batches.loader(0, 9, workers=0)]
    rest = [batch["labels"].tolist() for batch in batches.loader(5, 9, workers=0)]
    assert rest == whole[5:]
    assert len(batches.loader(5, 9, workers=0)) == 9


def test_ranks_share_a_batch_without_overlap() -> None:
    parts = [RowBatches(encoded([3] * 10), 1, 4, shard=(rank, 2))[0]["labels"].tolist() for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(RowBatches(encoded([3] * 10), 1, 4)[0]["labels"].tolist())


def test_evaluation_sees_every_row_once() -> None:
    batches = evaluation_batches(encoded([4, 1, 3, 2, 5]), batch=2)
    assert sorted(label for batch in batches for label in batch["labels"].tolist()) == [0, 1, 2, 3, 4]
    assert [batch["input_ids"].shape[1] for batch in batches] == [2, 4, 5]


def test_seeds_of_steps_and_purposes_do_not_collide() -> None:
    seeds = {step_seed(seed, step, what) for seed in range(5) for step in range(50) for what in ("mask", "order")}
    assert len(seeds) == 500
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("lengths", [[1], [3, 1]])
def test_pad_types(lengths: list[int]) -> None:
    batch = pad([(np.ones(n, np.int32), np.ones(n, np.int8)) for n in lengths])
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())
    assert batch["token_type_ids"].sum() == sum(lengths)
