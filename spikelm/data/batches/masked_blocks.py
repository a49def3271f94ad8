"""Batches for masked language modelling alone, as RoBERTa is pretrained: stretches of one document each, no pairs."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.data.batches.by_step import Batch, pad
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.batches.mlm_nsp import mask_tokens
from spikelm.data.tokens.packed import PackedDocuments


class MaskedBatches(CausalBatches):
    """[CLS] stretch [SEP], every document cut from its start to its end, masked anew each step."""

    purpose = "masked stretches"

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        ids = tokenizer.get_vocab()
        self.last = np.array([ids["[SEP]"]], np.int32)
        self.mask = ids["[MASK]"]
        self.specials = torch.tensor([ids[name] for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")])  # never predicted
        self.vocab = tokenizer.get_vocab_size()
        super().__init__(documents, tokenizer, seed, batch, max_length - len(self.last), shard)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return super().lengths(rows) + len(self.last)

    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The stretches, padded and masked."""
        ids = [np.concatenate([self.first, self.documents.ids[start:end], self.last]) for start, end in rows.tolist()]
        batch = pad([(row, np.zeros(len(row), np.int8)) for row in ids])
        masked, labels = mask_tokens(batch["input_ids"], self.specials, self.mask, self.vocab, seed)
        return {**batch, "input_ids": masked, "labels": labels}
