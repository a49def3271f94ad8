"""Batches for causal language modelling: stretches of running text, each from one document."""

from __future__ import annotations

from array import array

import numpy as np
from tokenizers import Tokenizer

from spikelm.data.batches import Batch, pad
from spikelm.data.blocks import BlockBatches
from spikelm.data.packed import PackedDocuments
from spikelm.errors import DataError

SHORTEST = 4  # tokens; a shorter rest of a document is left out


class CausalBatches(BlockBatches):
    """[CLS] and up to max_length - 1 tokens in a row, every document cut from its start to its end."""

    purpose = "stretches"

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.cls = np.array([tokenizer.get_vocab()["[CLS]"]], np.int32)
        super().__init__(documents, seed, batch, max_length, shard)

    def draw(self, rng: np.random.Generator, count: int | None, among: np.ndarray | None = None) -> np.ndarray:
        members = np.arange(len(self.documents)) if among is None else among
        rows, room = array("q"), self.max_length - 1
        while count is None or len(rows) < 2 * count:
            before = len(rows)
            for index in rng.permutation(len(members)):
                bounds = self.documents.bounds(int(members[index]))
                for start in range(bounds[0], bounds[-1] - SHORTEST + 1, room):
                    rows.extend((start, min(start + room, bounds[-1])))
            if len(rows) == before:
                raise DataError(f"no document has {SHORTEST} tokens", "check the text of the source")
            if count is None:
                break
        return np.frombuffer(rows, np.int64).reshape(-1, 2)[:count]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = rows[:, 1] - rows[:, 0] + 1
        return found

    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The stretches, padded; nothing is drawn, so the seed is not used."""
        ids = [np.concatenate([self.cls, self.documents.ids[start:end]]) for start, end in rows.tolist()]
        return pad([(row, np.zeros(len(row), np.int8)) for row in ids])
