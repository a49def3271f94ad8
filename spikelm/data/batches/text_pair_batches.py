"""Batches of text pairs by step number, with the decoder's inputs shifted as BART, mBART and Marian do it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from spikelm.data.batches.by_step import IGNORED, Batch, EpochBatches, shard_batch
from spikelm.data.tokens.encode import EncodedTextPairs
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer


def text_pair_batch(data: EncodedTextPairs, rows: Sequence[int] | np.ndarray, tokenizer: TextPairTokenizer) -> Batch:
    """The given rows, padded; `rows` says which they are, to find the texts again."""
    sources, mask = _padded([data.source(int(row)) for row in rows], tokenizer.pad)
    labels, counts = _padded([data.target(int(row)) for row in rows], tokenizer.pad)
    # mBART's targets end with the code of their language, which wraps around to the start: decoder_start too.
    inputs = np.concatenate([np.full((len(labels), 1), tokenizer.decoder_start), labels[:, :-1]], axis=1)
    labels[counts == 0] = IGNORED
    arrays = {
        "input_ids": sources,
        "attention_mask": mask,
        "decoder_input_ids": inputs,
        "labels": labels,
        "rows": np.asarray(rows, np.int64),
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _padded(rows: Sequence[np.ndarray], pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids as one array, and where they are."""
    length = max(map(len, rows))
    ids = np.full((len(rows), length), pad, np.int64)
    mask = np.zeros((len(rows), length), np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return ids, mask


class TextPairBatches(EpochBatches):
    """Training batches of text pairs."""

    def __init__(
        self,
        data: EncodedTextPairs,
        tokenizer: TextPairTokenizer,
        seed: int,
        batch: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(data.lengths, seed, batch, shard)
        self.data = data
        self.tokenizer = tokenizer

    def __getitem__(self, step: int) -> Batch:
        return shard_batch(text_pair_batch(self.data, self.rows(step), self.tokenizer), *self.shard)


def evaluation_text_pairs(data: EncodedTextPairs, tokenizer: TextPairTokenizer, batch: int) -> list[Batch]:
    """Every row once, short sources together; `rows` puts what is generated back in order."""
    order = np.argsort(data.source_lengths, kind="stable")
    return [text_pair_batch(data, order[i : i + batch], tokenizer) for i in range(0, len(order), batch)]
