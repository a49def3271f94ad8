"""BERT's pretraining batches: pairs for next sentence prediction (NSP), words masked for the language model (MLM).

NSP pairs are drawn as places in packed documents: no text is copied until it is used.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import IGNORED, Batch, pad
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import DataError

COLUMNS = 5  # of an NSP pair: start and end of a, start and end of b, label (0 = b follows a, 1 = b is a stranger)


class PretrainingBatches(BlockBatches):
    """NSP pairs drawn anew each epoch, masked anew each step (15%: 80 mask, 10 random, 10 kept)."""

    purpose = "pairs"  # a part of the seed: another word draws other batches

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
        return draw_nsp_pairs(self.documents, self.max_length, rng, count, among)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return nsp_pair_lengths(rows)

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


def draw_nsp_pairs(
    documents: PackedDocuments,
    max_length: int,
    rng: np.random.Generator,
    count: int | None = None,
    among: Sequence[int] | np.ndarray | None = None,
) -> np.ndarray:
    """Runs of sentences a, b of about max_length tokens; b follows a or, half of the time, is of another document.

    One row per pair (see COLUMNS). Without a count, every document of `among` (default: all) is gone through once.
    """
    members = range(len(documents)) if among is None else among
    pairs = array("q")
    room = max_length - 3
    while count is None or len(pairs) < count * COLUMNS:
        before = len(pairs)
        for index in rng.permutation(len(members)):
            _document_pairs(pairs, documents, members, int(index), room, rng)
            if count is not None and len(pairs) >= count * COLUMNS:
                break
        if len(pairs) == before:
            raise DataError("no document has two sentences", "check the pretraining text")
        if count is None:
            break
    return np.frombuffer(pairs, np.int64).reshape(-1, COLUMNS)[:count]


def nsp_pair_lengths(pairs: np.ndarray) -> np.ndarray:
    """Tokens of each pair with [CLS] and two [SEP]."""
    lengths: np.ndarray = pairs[:, 1] - pairs[:, 0] + pairs[:, 3] - pairs[:, 2] + 3
    return lengths


def _document_pairs(
    pairs: array[int],
    documents: PackedDocuments,
    members: Sequence[int] | np.ndarray,
    index: int,
    room: int,
    rng: np.random.Generator,
) -> None:
    """Add the pairs whose first part is of the member `index`."""
    bounds = documents.bounds(int(members[index]))
    position, last = 0, len(bounds) - 1
    while position + 1 < last:
        start = bounds[position]
        position = _take(bounds, position, int(rng.integers(room // 4, room // 2 + 1)))
        if position >= last:
            break
        length = bounds[position] - start  # before the cut
        if rng.random() < 0.5:
            begin, end = position, _take(bounds, position, room - length)
            position, other, label = end, bounds, 0
        else:
            stranger = int(rng.integers(len(members) - 1))
            stranger += stranger >= index
            other = documents.bounds(int(members[stranger]))
            begin = int(rng.integers(len(other) - 1))
            end, label = _take(other, begin, room - length), 1
        cut = min(length, room // 2)
        stop = min(other[end], other[begin] + room - cut)
        pairs.extend((start, start + cut, other[begin], stop, label))


def _take(bounds: Sequence[int], position: int, tokens: int) -> int:
    """The end of whole sentences from `position` on, up to `tokens` (at least one sentence)."""
    end = position + 1
    while end + 1 < len(bounds) and bounds[end + 1] - bounds[position] <= tokens:
        end += 1
    return end
