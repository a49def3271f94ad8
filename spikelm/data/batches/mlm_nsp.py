"""Pretraining batches: sentence pairs for next sentence prediction, dynamic masking for the masked language model."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import Batch, pad
from spikelm.data.batches.nsp_pairs import draw_pairs, pair_lengths
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import DataError

IGNORED = -100


class PretrainingBatches(BlockBatches):
    """Pairs drawn anew each epoch, masked anew each step (15%: 80 mask, 10 random, 10 kept)."""

    purpose = "pairs"

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        if len(documents) < 2:
            raise DataError("next sentence prediction needs at least two documents", "source.documents=200")
        ids = tokenizer.get_vocab()
        self.cls, self.sep, self.mask = (ids[name] for name in ("[CLS]", "[SEP]", "[MASK]"))
        # Never predicted; an unknown word either, as there is nothing to learn from "unknown".
        self.specials = torch.tensor([ids[name] for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")])
        self.vocab = tokenizer.get_vocab_size()
        super().__init__(documents, seed, batch, max_length, shard)

    def draw(self, rng: np.random.Generator, count: int | None, among: np.ndarray | None = None) -> np.ndarray:
        return draw_pairs(self.documents, self.max_length, rng, count, among)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return pair_lengths(rows)

    def shares(self, mine: Batch, whole: Batch, world: int) -> Batch:
        return word_share(mine, whole, world)

    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The pairs as one masked batch: 0 = b follows a, 1 = b is from another document."""
        all_ids = self.documents.ids
        batch = pad([self._join(all_ids[a:b], all_ids[c:d]) for a, b, c, d, _ in rows.tolist()])
        ids, labels = mask_tokens(batch["input_ids"], self.specials, self.mask, self.vocab, seed)
        next_sentence = torch.from_numpy(rows[:, 4].copy())
        return {**batch, "input_ids": ids, "labels": labels, "next_sentence_label": next_sentence}

    def _join(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = np.concatenate([[self.cls], a, [self.sep], b, [self.sep]])
        types = np.zeros(len(ids), np.int8)
        types[len(a) + 2 :] = 1
        return ids, types


def word_share(mine: Batch, whole: Batch, world: int) -> Batch:
    """The weight of a rank's mean over masked words."""
    masked, all_masked = ((batch["labels"] != IGNORED).sum() for batch in (mine, whole))
    return {"word_share": world * masked / all_masked.clamp_min(1) * (mine["row_share"] > 0)}


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
