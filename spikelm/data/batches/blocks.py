"""Batches over packed documents, block by block: any step of any epoch costs the rows of one block, not the corpus."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from spikelm.data.batches.by_step import Batch, StepBatches, epoch_order, shard_batch, step_seed
from spikelm.data.tokens.packed import PackedDocuments

#: documents whose rows are drawn together; a larger corpus is cut into blocks
BLOCK = 100_000


class BlockBatches(StepBatches, ABC):
    """Rows (places in the documents) drawn anew each epoch; a subclass says how they are drawn and made a batch."""

    purpose = "rows"  # of the seed they are drawn with

    def __init__(
        self, documents: PackedDocuments, seed: int, batch: int, max_length: int, shard: tuple[int, int] = (0, 1)
    ) -> None:
        super().__init__(seed, batch, shard)
        self.documents = documents
        self.max_length = max_length
        self.blocks = -(-len(documents) // BLOCK)
        self._loaded = -1
        self._wanted: int | None = None
        self._load(0)
        # Every block of every epoch has as many rows as the first, so that a step belongs to one block for good.
        self._wanted = len(self._rows)
        self._steps = len(self._order)
        self.steps_per_epoch = self.blocks * self._steps

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int | None, among: np.ndarray | None = None) -> np.ndarray:
        """`count` rows, or those of every document of `among` (default: all) gone through once."""

    @abstractmethod
    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Tokens of each row, special ones included."""

    @abstractmethod
    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The rows as one batch."""

    def _load(self, number: int) -> None:
        """The rows of a block, counted through all epochs, and the order of its batches."""
        if number == self._loaded:
            return
        rng = np.random.default_rng(step_seed(self.seed, number, self.purpose))
        self._rows = self.draw(rng, self._wanted, self._members(*divmod(number, self.blocks)))
        self._order = epoch_order(self.lengths(self._rows), self.batch, self.seed, number)
        self._loaded = number

    def _members(self, epoch: int, block: int) -> np.ndarray | None:
        """The documents of a block: all, or their share of an order drawn for the epoch."""
        if self.blocks == 1:
            return None
        order = np.random.default_rng(step_seed(self.seed, epoch, "blocks")).permutation(len(self.documents))
        return np.array_split(order, self.blocks)[block].copy()

    def __getitem__(self, step: int) -> Batch:
        number, position = divmod(step, self._steps)
        self._load(number)
        rank, world = self.shard
        # Every rank makes the whole batch: what is masked must not depend on how many devices share it.
        whole = self.batch_of(self._rows[self._order[position]], step_seed(self.seed, step, "mask"))
        return shard_batch(whole, rank, world)

    def fixed(self, count: int) -> list[Batch]:
        """`count` rows in fixed batches, the same whenever they are asked for: evaluation and measurements."""
        rows = self.draw(np.random.default_rng(step_seed(self.seed, 0, f"fixed {self.purpose}")), count)
        starts = range(0, len(rows), self.batch)
        return [self.batch_of(rows[i : i + self.batch], step_seed(self.seed, i, "fixed mask")) for i in starts]
