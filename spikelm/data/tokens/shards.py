"""The arrays of tokenised documents, written shard by shard in order: a shard is whole and noted, or not there.

A shard is a stretch of the final files, so nothing is written twice: its place follows from the counts of the shards
before it. The heads of the files are written at the end, when their lengths are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from spikelm.data.tokens.manifest import Counts, Shard, ShardPart, read_shard
from spikelm.data.tokens.packed import DTYPES, PackedDocuments, write_header
from spikelm.store.atomic import write_atomic

JOURNAL = "journal.jsonl"
PIECE = 2**24  # bytes read at a time


def write_part(folder: Path, before: Counts, packed: PackedDocuments) -> ShardPart:
    """Put a shard's documents into the arrays of a split, behind what `before` counts."""
    counts = Counts(len(packed), len(packed.sentences) - 1, len(packed.ids))
    arrays = {
        "ids": packed.ids,
        "sentences": packed.sentences[1:] + before.tokens,
        "documents": packed.documents[1:] + before.sentences,
    }
    digest = hashlib.sha256()
    for name, place in _places(before, counts).items():
        written = arrays[name].astype(DTYPES[name], copy=False).tobytes()
        digest.update(written)
        with _opened(folder / f"{name}.npy") as file:
            file.seek(place.start)
            file.write(written)
            file.flush()
            os.fsync(file.fileno())
    return ShardPart(counts, digest.hexdigest())


def part_is_whole(folder: Path, before: Counts, part: ShardPart) -> bool:
    """Whether the bytes of a shard are those that were written."""
    digest = hashlib.sha256()
    for name, place in _places(before, part.counts).items():
        try:
            with open(folder / f"{name}.npy", "rb") as file:
                file.seek(place.start)
                left = len(place)
                while left and (piece := file.read(min(left, PIECE))):
                    digest.update(piece)
                    left -= len(piece)
        except OSError:
            return False
    return digest.hexdigest() == part.sha256


def finish_arrays(folder: Path, total: Counts) -> None:
    """Give the files their heads and their exact lengths."""
    for name, place in _places(Counts(), total).items():
        with _opened(folder / f"{name}.npy") as file:
            file.write(_head(name, total))
            file.truncate(place.stop)
            file.flush()
            os.fsync(file.fileno())


def heads_are_whole(folder: Path, total: Counts) -> bool:
    """Whether the files have the heads and lengths of so many documents, sentences and tokens."""
    for name, place in _places(Counts(), total).items():
        path, head = folder / f"{name}.npy", _head(name, total)
        try:
            with open(path, "rb") as file:
                if file.read(len(head)) != head or path.stat().st_size != place.stop:
                    return False
        except OSError:
            return False
    return True


def damaged_shards(folders: dict[str, Path], shards: Sequence[Shard]) -> Iterator[int]:
    """The numbers of the shards that are not as they were written."""
    before = dict.fromkeys(folders, Counts())
    for number, shard in enumerate(shards):
        if not all(part_is_whole(folders[split], before[split], part) for split, part in shard.items()):
            yield number
        before = after(before, shard)


def after(before: dict[str, Counts], shard: Shard) -> dict[str, Counts]:
    """What lies before the next shard, by split."""
    return {split: counts + shard[split].counts if split in shard else counts for split, counts in before.items()}


class Journal:
    """The shards that are written, one line each; a line is added when its bytes are on the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL

    def read(self) -> list[Shard]:
        """The shards of all whole lines; what a kill or a power cut left of a last one does not count."""
        shards: list[Shard] = []
        if self.path.is_file():
            for line in self.path.read_bytes().split(b"\n")[:-1]:
                try:
                    shards.append(read_shard(json.loads(line)))
                except (ValueError, KeyError, TypeError, AttributeError):
                    break
        return shards

    def keep(self, shards: Sequence[Shard]) -> None:
        """Let it hold these shards and nothing behind them."""
        write_atomic(self.path, "".join(map(_line, shards)))

    def add(self, shard: Shard) -> None:
        with open(self.path, "a", encoding="ascii") as file:
            file.write(_line(shard))
            file.flush()
            os.fsync(file.fileno())


def _line(shard: Shard) -> str:
    return json.dumps({split: asdict(part) for split, part in shard.items()}) + "\n"


def _places(before: Counts, counts: Counts) -> dict[str, range]:
    """The bytes of a shard in each file."""
    items = {
        "ids": (before.tokens, counts.tokens),
        "sentences": (before.sentences, counts.sentences),
        "documents": (before.documents, counts.documents),
    }
    places = {}
    for name, (start, length) in items.items():
        size = np.dtype(DTYPES[name]).itemsize
        first = len(_head(name, Counts())) + start * size
        places[name] = range(first, first + length * size)
    return places


def _head(name: str, total: Counts) -> bytes:
    """All before the first shard: numpy's header and, where the array has offsets, a 0."""
    lengths = {"ids": total.tokens, "sentences": total.sentences + 1, "documents": total.documents + 1}
    head = io.BytesIO()
    write_header(head, DTYPES[name], lengths[name])
    return head.getvalue() + (b"" if name == "ids" else np.zeros(1, DTYPES[name]).tobytes())


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file to write into at any place, made when it is not there."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
        yield file
