"""Batches of plain sentences and pairs of neighbours, without labels: the text of the general distillation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from spikelm.data.batches import Batch, StepBatches, epoch_order, pad, step_seed
from spikelm.errors import DataError

Row = tuple[np.ndarray, np.ndarray]  # ids and segment ids
SHORTEST = 4  # tokens; below that it is a heading or a fragment


class SentenceBatches(StepBatches):
    """One sentence, or two in a row as [CLS] a [SEP] b [SEP], half of each: what GLUE's tasks look like."""

    def __init__(
        self,
        documents: Sequence[Sequence[np.ndarray]],
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(seed, batch, shard)
        self.documents = documents
        self.max_length = max_length
        ids = tokenizer.get_vocab()
        self.cls, self.sep = ids["[CLS]"], ids["[SEP]"]
        self._epoch = -1
        self._rows: list[Row] = []
        self._load_epoch(0)
        self.steps_per_epoch = len(self._order)

    def _load_epoch(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        rng = np.random.default_rng(step_seed(self.seed, epoch, "sentences"))
        # Every epoch has as many rows as the first, so that a step belongs to one epoch for good.
        self._rows = self._draw(rng, len(self._rows) or None)
        lengths = np.array([len(ids) for ids, _ in self._rows])
        self._order = epoch_order(lengths, self.batch, self.seed, epoch)
        self._epoch = epoch

    def __getitem__(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        self._load_epoch(epoch)
        rank, world = self.shard
        return pad([self._rows[row] for row in self._order[position][rank::world]])

    def fixed(self, count: int) -> list[Batch]:
        """`count` rows in fixed batches, short ones together, for evaluation and measurements."""
        rows = self._draw(np.random.default_rng(step_seed(self.seed, 0, "fixed sentences")), count)
        rows.sort(key=lambda row: len(row[0]))
        return [pad(rows[i : i + self.batch]) for i in range(0, len(rows), self.batch)]

    def _draw(self, rng: np.random.Generator, count: int | None) -> list[Row]:
        rows: list[Row] = []
        while count is None or len(rows) < count:
            before = len(rows)
            for index in rng.permutation(len(self.documents)):
                sentences = [sentence for sentence in self.documents[index] if len(sentence) >= SHORTEST]
                position = 0
                while position < len(sentences):
                    taken = sentences[position : position + 1 + int(rng.integers(2))]
                    rows.append(self._join(taken))
                    position += len(taken)
            if len(rows) == before:
                raise DataError(f"no sentence has {SHORTEST} tokens", "check the text of the source")
            if count is None:
                break
        return rows[:count]

    def _join(self, sentences: Sequence[np.ndarray]) -> Row:
        """Each sentence is cut to its share of the room."""
        room = (self.max_length - 1) // len(sentences) - 1
        parts = [np.array([self.cls], np.int32)]
        types = [0]
        for segment, sentence in enumerate(sentences):
            parts += [sentence[:room], np.array([self.sep], np.int32)]
            types += [segment] * (min(room, len(sentence)) + 1)
        return np.concatenate(parts), np.array(types, np.int8)
