"""Rows of every task of text pairs: stories with summaries, digests with highlights, English with Romanian."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from spikelm.data.microworld.bilingual import bilingual_pair
from spikelm.data.microworld.digests import digest
from spikelm.data.microworld.glue_rows import Part
from spikelm.data.microworld.news import TOWNS, TRADES
from spikelm.data.microworld.romanian import MEN, WOMEN
from spikelm.data.microworld.stories import story

SEQ2SEQ_VERSION: int = 1  # of these text pairs alone: the texts of GLUE and of the corpus have one of their own


class _Maker(NamedTuple):
    columns: tuple[str, str]
    make: Callable[[random.Random], tuple[str, str]]
    rows: dict[str, int]
    entities: dict[str, tuple[str, ...]]  # by kind, the words for people and places that a target may name


_NEWS = {"trades": tuple(TRADES), "towns": TOWNS}
_NAMES = {"names": (*MEN, *WOMEN, *WOMEN.values())}  # in Romanian a woman's name has a form of its own for the genitive

_MAKERS: dict[str, _Maker] = {
    "xsum": _Maker(("document", "summary"), story, {"train": 6000, "validation": 400, "test": 400}, _NEWS),
    "cnn_dm": _Maker(("document", "summary"), digest, {"train": 3000, "validation": 400, "test": 400}, _NEWS),
    "wmt16_enro": _Maker(("en", "ro"), bilingual_pair, {"train": 6000, "validation": 400, "test": 400}, _NAMES),
}
SEQ2SEQ_TASKS: tuple[str, ...] = tuple(_MAKERS)
SEQ2SEQ_ROWS: dict[str, dict[str, int]] = {name: maker.rows for name, maker in _MAKERS.items()}
SEQ2SEQ_ENTITIES: dict[str, dict[str, tuple[str, ...]]] = {name: maker.entities for name, maker in _MAKERS.items()}


def _stream(maker: _Maker, split: str, rng: random.Random) -> Iterator[dict[str, str]]:
    """Rows without end; a target belongs to one split, and no source comes twice."""
    part = Part(split)
    seen: set[str] = set()
    while True:
        source, target = maker.make(rng)
        if part(target) and source not in seen:
            seen.add(source)
            yield dict(zip(maker.columns, (source, target), strict=True))


def seq2seq(task: str, seed: int = 0, rows: Mapping[str, int] | None = None) -> dict[str, list[dict[str, str]]]:
    """The splits of one task with the hub's columns; rows overrides the counts of single splits."""
    if task not in _MAKERS:
        raise ValueError(f"microworld has no text pairs {task!r}; it has {', '.join(_MAKERS)}")
    maker = _MAKERS[task]
    counts = {**maker.rows, **(rows or {})}
    unknown = sorted(set(counts) - set(maker.rows))
    if unknown:
        raise ValueError(f"microworld {task} has no split {unknown[0]!r}; it has {', '.join(maker.rows)}")
    seeds = {split: f"seq2seq/{SEQ2SEQ_VERSION}/{seed}/{task}/{split}" for split in counts}
    return {
        split: list(islice(_stream(maker, split, random.Random(seeds[split])), count))
        for split, count in counts.items()
    }
