"""Sentence pairs for next sentence prediction, as places in packed documents: no text is copied until it is used."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import DataError

COLUMNS = 5  # of a pair: start and end of a, start and end of b, label (0 = b follows a, 1 = b is a stranger)


def draw_pairs(
    documents: PackedDocuments,
    max_length: int,
    rng: np.random.Generator,
    count: int | None = None,
    among: Sequence[int] | np.ndarray | None = None,
) -> np.ndarray:
    """Runs of sentences a, b of about max_length tokens; b follows a or, half of the time, is of another document.

    One row a pair (see COLUMNS). Without a count, every document of `among` (default: all) is gone through once.
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


def pair_lengths(pairs: np.ndarray) -> np.ndarray:
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
