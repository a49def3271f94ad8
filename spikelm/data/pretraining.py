"""Pretraining batches: sentence pairs for next sentence prediction, dynamic masking for the masked language model."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.data.batches import Batch, StepBatches, epoch_order, pad, step_seed
from spikelm.data.packed import PackedDocuments
from spikelm.data.pairs import draw_pairs, pair_lengths
from spikelm.errors import DataError

IGNORED = -100
#: documents whose pairs are drawn together; a larger corpus is cut into blocks, so that any step costs one block
BLOCK = 100_000


class PretrainingBatches(StepBatches):
    """Pairs drawn anew each epoch, masked anew each step (15%: 80 mask, 10 random, 10 kept)."""

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(seed, batch, shard)
        if len(documents) < 2:
            raise DataError("next sentence prediction needs at least two documents", "source.documents=200")
        self.documents = documents
        self.max_length = max_length
        ids = tokenizer.get_vocab()
        self.cls, self.sep, self.mask = (ids[name] for name in ("[CLS]", "[SEP]", "[MASK]"))
        # Never predicted; an unknown word either, as there is nothing to learn from "unknown".
        self.specials = torch.tensor([ids[name] for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")])
        self.vocab = tokenizer.get_vocab_size()
        self.blocks = -(-len(documents) // BLOCK)
        self._loaded = -1
        self._wanted: int | None = None
        self._load(0)
        # Every block of every epoch has as many pairs as the first, so that a step belongs to one block for good.
        self._wanted = len(self._pairs)
        self._steps = len(self._order)
        self.steps_per_epoch = self.blocks * self._steps

    def _load(self, number: int) -> None:
        """The pairs of a block, counted through all epochs, and the order of its batches."""
        if number == self._loaded:
            return
        rng = np.random.default_rng(step_seed(self.seed, number, "pairs"))
        members = self._members(*divmod(number, self.blocks))
        self._pairs = draw_pairs(self.documents, self.max_length, rng, self._wanted, members)
        self._order = epoch_order(pair_lengths(self._pairs), self.batch, self.seed, number)
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
        pairs = self._pairs[self._order[position][rank::world]]
        return self.batch_of(pairs, step_seed(self.seed, step * world + rank, "mask"))

    def batch_of(self, pairs: np.ndarray, seed: int) -> Batch:
        """The pairs as one masked batch: 0 = b follows a, 1 = b is from another document."""
        all_ids = self.documents.ids
        batch = pad([self._join(all_ids[a:b], all_ids[c:d]) for a, b, c, d, _ in pairs.tolist()])
        ids, labels = mask_tokens(batch["input_ids"], self.specials, self.mask, self.vocab, seed)
        next_sentence = torch.from_numpy(pairs[:, 4].copy())
        return {**batch, "input_ids": ids, "labels": labels, "next_sentence_label": next_sentence}

    def fixed(self, count: int) -> list[Batch]:
        """`count` pairs in fixed batches with fixed masks, for evaluation and measurements."""
        rng = np.random.default_rng(step_seed(self.seed, 0, "fixed pairs"))
        pairs = draw_pairs(self.documents, self.max_length, rng, count)
        starts = range(0, len(pairs), self.batch)
        return [self.batch_of(pairs[i : i + self.batch], step_seed(self.seed, i, "fixed mask")) for i in starts]

    def _join(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = np.concatenate([[self.cls], a, [self.sep], b, [self.sep]])
        types = np.zeros(len(ids), np.int8)
        types[len(a) + 2 :] = 1
        return ids, types


def mask_tokens(
    ids: torch.Tensor, specials: torch.Tensor, mask: int, vocab: int, seed: int, share: float = 0.15
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked ids and labels: of a `share` of the tokens 80% become [MASK], 10% random, 10% stay; others unlabelled."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(ids.shape, generator=generator) < share
    chosen &= ~torch.isin(ids, specials)
    labels = torch.where(chosen, ids, IGNORED)
    dice = torch.rand(ids.shape, generator=generator)
    random_ids = torch.randint(vocab, ids.shape, generator=generator)
    masked = torch.where(chosen & (dice < 0.8), mask, ids)
    return torch.where(chosen & (dice >= 0.9), random_ids, masked), labels
