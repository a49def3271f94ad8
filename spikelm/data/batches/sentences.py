"""Batches of plain sentences, alone or two in a row, without labels: the text of the general distillation."""

from __future__ import annotations

from array import array
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import Batch, pad, step_seed
from spikelm.data.tokens.marks import marks_of
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import DataError

SHORTEST = 4  # tokens; below that it is a heading or a fragment
COLUMNS = 4  # of a row: start and end of the first sentence, start and end of the second (equal: there is none)


class SentenceBatches(BlockBatches):
    """One sentence, or two in a row as [CLS] a [SEP] b [SEP], half of each: what GLUE's tasks look like.

    The last `task_rows` documents are rows of such tasks and stay whole, two texts in both orders.
    """

    purpose = "sentences"

    def __init__(
        self,
        documents: PackedDocuments,
        tokenizer: Tokenizer,
        seed: int,
        batch: int,
        max_length: int,
        shard: tuple[int, int] = (0, 1),
        task_rows: int = 0,
    ) -> None:
        self.articles = len(documents) - task_rows
        marks = marks_of(tokenizer)
        self.cls, self.sep = (np.array([mark], np.int32) for mark in (marks.start, marks.end))
        self.second = int(marks.segments)  # the segment of a row's second sentence
        super().__init__(documents, seed, batch, max_length, shard)

    def draw(self, rng: np.random.Generator, count: int | None, among: np.ndarray | None = None) -> np.ndarray:
        members = range(len(self.documents)) if among is None else among
        rows = array("q")
        while count is None or len(rows) < count * COLUMNS:
            before = len(rows)
            for index in rng.permutation(len(members)):
                self._document_rows(rows, int(members[index]), rng)
                if count is not None and len(rows) >= count * COLUMNS:
                    break
            if len(rows) == before:
                raise DataError(f"no sentence has {SHORTEST} tokens", "check the text of the source")
            if count is None:
                break
        return np.frombuffer(rows, np.int64).reshape(-1, COLUMNS)[:count]

    def _document_rows(self, rows: array[int], document: int, rng: np.random.Generator) -> None:
        """Every sentence of a document once, each sentence cut to its share of the room."""
        bounds = self.documents.bounds(document)
        if document >= self.articles:
            self._task_rows(rows, list(pairwise(bounds)))
            return
        spans = [(a, b) for a, b in pairwise(bounds) if b - a >= SHORTEST]
        position = 0
        while position < len(spans):
            taken = spans[position : position + 1 + int(rng.integers(2))]
            room = (self.max_length - 1) // len(taken) - 1
            cut = [(a, min(b, a + room)) for a, b in taken]
            rows.extend([*cut[0], *(cut[1] if len(cut) > 1 else (0, 0))])
            position += len(taken)

    def _task_rows(self, rows: array[int], spans: list[tuple[int, int]]) -> None:
        """A task's row as it is, cut where it is too long: the longer part first."""
        if len(spans) == 1:
            (start, end) = spans[0]
            rows.extend([start, min(end, start + self.max_length - 2), 0, 0])
        elif len(spans) == 2:
            room = self.max_length - 3
            sizes = [end - start for start, end in spans]
            # What the other leaves free, at least half of the room.
            most = [max(room - other, room // 2) for other in reversed(sizes)]
            a, b = ((start, min(end, start + size)) for (start, end), size in zip(spans, most, strict=True))
            rows.extend([*a, *b, *b, *a])

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        first, second = rows[:, 1] - rows[:, 0], rows[:, 3] - rows[:, 2]
        lengths: np.ndarray = first + 2 + np.where(second > 0, second + 1, 0)
        return lengths

    def batch_of(self, rows: np.ndarray, seed: int) -> Batch:
        """The rows, padded; nothing is masked, so the seed is not used."""
        return pad([self._join(*row) for row in rows.tolist()])

    def fixed(self, count: int) -> list[Batch]:
        """As in the base class, but short rows together: little padding."""
        rows = self.draw(np.random.default_rng(step_seed(self.seed, 0, f"fixed {self.purpose}")), count)
        rows = rows[np.argsort(self.lengths(rows), kind="stable")]
        return [self.batch_of(rows[i : i + self.batch], 0) for i in range(0, len(rows), self.batch)]

    def _join(self, a: int, b: int, c: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        ids = self.documents.ids
        parts = [self.cls, ids[a:b], self.sep]
        types = [0] * (b - a + 2)
        if d > c:
            parts += [ids[c:d], self.sep]
            types += [self.second] * (d - c + 1)
        return np.concatenate(parts), np.array(types, np.int8)
