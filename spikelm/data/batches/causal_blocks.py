"""Batches for causal language modelling: stretches of running text."""

from __future__ import annotations

from array import array

import numpy as np
from tokenizers import Tokenizer

from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import Batch, pad
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import DataError

SHORTEST = 4  # tokens of a document that has no other behind it; a shorter rest is left out


class CausalBatches(BlockBatches):
    """Stretches of up to max_length tokens, every document cut from its start to its end.

    Each stretch is of one document and has [CLS] before it; `across`, it goes on into the documents that follow, whose
    marks tell them apart (GPT-2), and nothing is put before it.
    """

    purpose = "stretches"

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
        across: bool = False,
    ) -> None:
        self.first = np.array([] if across else [tokenizer.get_vocab()["[CLS]"]], np.int32)
        self.across = across
        super().__init__(documents, seed, batch, max_length, shard)

    def draw(self, rng: np.random.Generator, count: int | None, among: np.ndarray | None = None) -> np.ndarray:
        members = range(len(self.documents)) if among is None else among
        rows, room, last = array("q"), self.max_length - len(self.first), len(self.documents.ids)
        while count is None or len(rows) < 2 * count:
            before = len(rows)
            for index in rng.permutation(len(members)):
                bounds = self.documents.bounds(int(members[index]))
                # a single token has none to be told from
                end, shortest = (last, 2) if self.across else (bounds[-1], SHORTEST)
                for start in range(bounds[0], min(bounds[-1], end - shortest + 1), room):
                    rows.extend((start, min(start + room, end)))
                if count is not None and len(rows) >= 2 * count:
                    break
            if len(rows) == before:
                raise DataError(f"no document has {SHORTEST} tokens", "check the text of the source")
            if count is None:
                break
        return np.frombuffer(rows, np.int64).reshape(-1, 2)[:count]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = rows[:, 1] - rows[:, 0] + len(self.first)
        return lengths

    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The stretches, padded; nothing is drawn, so the seed is not used."""
        ids = [np.concatenate([self.first, self.documents.ids[start:end]]) for start, end in rows.tolist()]
        return pad([(row, np.zeros(len(row), np.int8)) for row in ids])
