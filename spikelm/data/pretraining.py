"""Pretraining batches: sentence pairs for next sentence prediction, dynamic masking for the masked language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.data.batches import Batch, StepBatches, epoch_order, pad, shard_batch, step_seed
from spikelm.errors import DataError

IGNORED = -100
Documents = Sequence[Sequence[np.ndarray]]
Pair = tuple[np.ndarray, np.ndarray, int]


class PretrainingBatches(StepBatches):
    """Pairs drawn anew each epoch, masked anew each step (15%: 80 mask, 10 random, 10 kept)."""

    def __init__(
        self,
        documents: Documents,
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
        self._epoch = -1
        self._pairs: list[Pair] = []
        self._load_epoch(0)
        self.steps_per_epoch = len(self._order)

    def _load_epoch(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        rng = np.random.default_rng(step_seed(self.seed, epoch, "pairs"))
        # Every epoch has as many pairs as the first, so that a step belongs to one epoch for good.
        wanted = len(self._pairs) or None
        self._pairs = draw_pairs(self.documents, self.max_length, rng, wanted)
        lengths = np.array([len(a) + len(b) + 3 for a, b, _ in self._pairs])
        self._order = epoch_order(lengths, self.batch, self.seed, epoch)
        self._epoch = epoch

    def __getitem__(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        self._load_epoch(epoch)
        rank, world = self.shard
        # Every rank masks the whole batch: what is masked must not depend on how many devices share it.
        whole = self.batch_of([self._pairs[row] for row in self._order[position]], step_seed(self.seed, step, "mask"))
        mine = shard_batch(whole, rank, world)
        if world > 1:
            masked, all_masked = ((batch["labels"] != IGNORED).sum() for batch in (mine, whole))
            mine["word_share"] = world * masked / all_masked.clamp_min(1) * (mine["row_share"] > 0)
        return mine

    def batch_of(self, pairs: Sequence[Pair], seed: int) -> Batch:
        """The pairs as one masked batch: 0 = b follows a, 1 = b is from another document."""
        batch = pad([self._join(a, b) for a, b, _ in pairs])
        ids, labels = mask_tokens(batch["input_ids"], self.specials, self.mask, self.vocab, seed)
        next_sentence = torch.tensor([label for _, _, label in pairs])
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


def draw_pairs(documents: Documents, max_length: int, rng: np.random.Generator, count: int | None) -> list[Pair]:
    """Runs of sentences a, b of about max_length tokens; b follows a or, half of the time, is of another document."""
    pairs: list[Pair] = []
    room = max_length - 3
    while count is None or len(pairs) < count:
        before = len(pairs)
        for index in rng.permutation(len(documents)):
            pairs += _document_pairs(documents, int(index), room, rng)
            if count is not None and len(pairs) >= count:
                return pairs[:count]
        if len(pairs) == before:
            raise DataError("no document has two sentences", "check the pretraining text")
        if count is None:
            break
    return pairs


def _document_pairs(documents: Documents, index: int, room: int, rng: np.random.Generator) -> list[Pair]:
    document = documents[index]
    pairs: list[Pair] = []
    position = 0
    while position + 1 < len(document):
        a, position = _take(document, position, int(rng.integers(room // 4, room // 2 + 1)))
        if position >= len(document):
            break
        if rng.random() < 0.5:
            b, position = _take(document, position, room - len(a))
            label = 0
        else:
            other = int(rng.integers(len(documents) - 1))
            other += other >= index
            stranger = documents[other]
            b, _ = _take(stranger, int(rng.integers(len(stranger))), room - len(a))
            label = 1
        pairs.append((a[: room // 2], b[: room - len(a[: room // 2])], label))
    return pairs


def _take(document: Sequence[np.ndarray], position: int, tokens: int) -> tuple[np.ndarray, int]:
    """Whole sentences from `position` on, up to `tokens` (at least one), and where the next one starts."""
    taken = [document[position]]
    position += 1
    while position < len(document) and sum(map(len, taken)) + len(document[position]) <= tokens:
        taken.append(document[position])
        position += 1
    return np.concatenate(taken), position


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
