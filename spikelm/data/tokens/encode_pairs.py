"""Pairs of texts to token ids: sources and targets as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikelm.config.task import TaskConfig
from spikelm.data.sources.streams import chunks
from spikelm.data.tokens.bpe import PairTokenizer

CHUNK = 1000  # rows tokenised at a time: what the tokenizer notes on each token is many times its id


@dataclass(frozen=True)
class EncodedPairs:
    """Ids of all sources end to end, and of all targets; row i spans offsets[i] to offsets[i+1] of either."""

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    @property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of source and target together."""
        found: np.ndarray = np.diff(self.source_offsets) + np.diff(self.target_offsets)
        return found

    def source(self, index: int) -> np.ndarray:
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index: int) -> np.ndarray:
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]


def encode_pairs(task: TaskConfig, rows: Sequence[Mapping[str, Any]], tokenizer: PairTokenizer) -> EncodedPairs:
    """Each source and target in its frame, cut to the task's lengths."""
    source, target = task.columns
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for some in chunks(rows, CHUNK):
        sources = tokenizer.sources([row[source] for row in some], task.source_length)
        targets = tokenizer.targets([row[target] for row in some], task.target_length)
        for side, found in zip(sides, (sources, targets), strict=True):
            side += [np.asarray(ids, np.int32) for ids in found]
    offsets = [np.concatenate([[0], np.cumsum([len(ids) for ids in side])]) for side in sides]
    return EncodedPairs(np.concatenate(sides[0]), offsets[0], np.concatenate(sides[1]), offsets[1])
