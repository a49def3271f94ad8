"""Batches by step number: the batch of step s depends on the seed and s alone, so any step can be resumed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from spikelm.data.tokens.encode import EncodedRows

Batch = dict[str, Tensor]
_START = "fork" if sys.platform == "linux" else "spawn"  # how workers of a loader are started
IGNORED = -100  # the label of a token that is not predicted
SHARE = "_share"  # the end of the names of weights
BUCKET = 32  # batches sorted by length together: little padding, still random


def step_seed(seed: int, step: int, purpose: str) -> int:
    """A seed of its own for each step and purpose."""
    digest = hashlib.blake2b(f"{seed}/{step}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def epoch_order(lengths: np.ndarray, batch: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each batch of an epoch: shuffled, rows of like length together, batches shuffled again."""
    rng = np.random.default_rng(step_seed(seed, epoch, "order"))
    rows = rng.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(rows), batch * BUCKET):
        bucket = rows[start : start + batch * BUCKET]
        bucket = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches += [bucket[i : i + batch] for i in range(0, len(bucket), batch)]
    return [batches[i] for i in rng.permutation(len(batches))]


def pad(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Batch:
    """Rows of (ids, segment ids) as one padded batch; the pad id is 0."""
    length = max(len(ids) for ids, _ in rows)
    ids = np.zeros((len(rows), length), np.int64)
    types = np.zeros((len(rows), length), np.int64)
    mask = np.zeros((len(rows), length), np.int64)
    for index, (row_ids, row_types) in enumerate(rows):
        ids[index, : len(row_ids)] = row_ids
        types[index, : len(row_ids)] = row_types
        mask[index, : len(row_ids)] = 1
    names = ("input_ids", "token_type_ids", "attention_mask")
    return {name: torch.from_numpy(array) for name, array in zip(names, (ids, types, mask), strict=True)}


def reversed_rows(x: Tensor, mask: Tensor) -> Tensor:
    """Each row's real tokens in reverse, padding where it was; twice is the row itself. x: (B, n) or (B, n, D)."""
    lengths = mask.sum(1, keepdim=True)
    order = torch.arange(x.shape[1], device=x.device)
    order = torch.where(order < lengths, lengths - 1 - order, order)  # (B, n)
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand_as(x))


def shard_batch(batch: Batch, rank: int, world: int) -> Batch:
    """A rank's rows of a batch, padded as the whole batch is, and the weights of its mean losses.

    Gradients are averaged over the ranks, so a mean over n of N rows counts world * n / N (`row_share`) to give the
    whole's; one over tokens (`token_share`) or labelled tokens (`label_share`) likewise. What is shared out a second
    time, among the parts of one rank, has shares already, which are multiplied. `whole_rows` are those of all ranks.
    """
    if world == 1:
        return batch
    whole = {name: tensor for name, tensor in batch.items() if tensor.dim()}
    rows = len(whole["input_ids"])
    count = len(range(rank, rows, world))
    # Without a row of its own (the last batch of an epoch) a rank takes one that counts nothing.
    mine = {name: tensor[rank::world] if count else tensor[:1] for name, tensor in whole.items()}
    shares = {f"row{SHARE}": torch.tensor(world * count / rows)}
    for name, tokens in _counted_tokens(mine).items():
        share = world * tokens / _counted_tokens(whole)[name].clamp_min(1) if count else torch.tensor(0.0)
        shares[f"{name}{SHARE}"] = share
    multiplied = {name: share * batch.get(name, 1.0) for name, share in shares.items()}
    return {**mine, **multiplied, "whole_rows": batch.get("whole_rows", torch.tensor(rows))}


def _counted_tokens(batch: Batch) -> Batch:
    """How many tokens a batch has, and how many of them have a label."""
    counts = {"token": batch["attention_mask"].sum()} if "attention_mask" in batch else {}
    labels = batch.get("labels")
    return {**counts, "label": (labels != IGNORED).sum()} if labels is not None and labels.dim() > 1 else counts


def split_batch(batch: Batch, micro_batch: int | None, world: int = 1) -> list[Batch]:
    """A rank's batch in parts of at most `micro_batch` rows, as many on every rank; their mean is the batch's."""
    share = float(batch[f"row{SHARE}"]) if f"row{SHARE}" in batch else 1.0
    rows = len(batch["input_ids"])
    if not micro_batch:
        return [batch]
    # Ranks differ by a row at most: the largest says how many parts there are.
    most = -(-round(world * rows / share) // world) if share else 1
    parts = -(-most // micro_batch)
    return [shard_batch(batch, part, parts) for part in range(parts)]


class StepBatches(Dataset[Batch]):
    """A training set indexed by step; `shard` is (rank, world size)."""

    steps_per_epoch: int

    def __init__(self, seed: int, batch: int, shard: tuple[int, int] = (0, 1)) -> None:
        self.seed = seed
        self.batch = batch
        self.shard = shard

    def loader(self, start: int, total: int, workers: int, pinned: bool = False) -> DataLoader[Batch]:
        """Batches of the steps from `start` on; its length counts all `total` steps.

        `pinned` memory is copied to a GPU without anybody waiting for it.
        """
        return DataLoader(
            self,
            sampler=_Steps(start, total),
            batch_size=None,
            num_workers=workers,
            pin_memory=pinned,
            persistent_workers=workers > 0,
            # Named, because joblib makes its own way of starting processes the default, which cannot start these.
            multiprocessing_context=_START if workers else None,
        )


class _Steps(Sampler[int]):
    """Steps start to total - 1; the length is `total`, as Lightning counts the steps already done."""

    def __init__(self, start: int, total: int) -> None:
        self.start = start
        self.total = total

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.total))

    def __len__(self) -> int:
        return self.total


class EpochBatches(StepBatches):
    """Every row once an epoch, rows of like length together, in an order that depends on seed and epoch alone."""

    def __init__(self, lengths: np.ndarray, seed: int, batch: int, shard: tuple[int, int] = (0, 1)) -> None:
        super().__init__(seed, batch, shard)
        self.lengths = lengths
        self.steps_per_epoch = -(-len(lengths) // batch)
        self._epoch = -1
        self._order: list[np.ndarray] = []

    def rows(self, step: int) -> np.ndarray:
        """The rows of a step's whole batch."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = epoch_order(self.lengths, self.batch, self.seed, epoch)
            self._epoch = epoch
        return self._order[position]


class RowBatches(EpochBatches):
    """Batches of labelled rows."""

    def __init__(self, data: EncodedRows, seed: int, batch: int, shard: tuple[int, int] = (0, 1)) -> None:
        super().__init__(data.lengths, seed, batch, shard)
        self.data = data

    def __getitem__(self, step: int) -> Batch:
        return shard_batch(labelled_batch(self.data, self.rows(step)), *self.shard)


def labelled_batch(data: EncodedRows, rows: Sequence[int] | np.ndarray) -> Batch:
    """The given rows, padded, with their labels and their places in the data."""
    batch = pad([data.row(int(row)) for row in rows])
    places = np.asarray(rows, np.int64)
    return {**batch, "labels": torch.from_numpy(data.labels[places]), "rows": torch.from_numpy(places)}


def evaluation_batches(data: EncodedRows, batch: int) -> list[Batch]:
    """Every row once, short ones together; metrics do not depend on the order."""
    order = np.argsort(data.lengths, kind="stable")
    return [labelled_batch(data, order[i : i + batch]) for i in range(0, len(order), batch)]
