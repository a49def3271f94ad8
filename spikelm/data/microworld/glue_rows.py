"""Rows of every GLUE task and split: each scene belongs to one split for good, whatever the row counts."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from spikelm.data.microworld.entailment import inference_pair, question_pair
from spikelm.data.microworld.grammar import minimal_pair
from spikelm.data.microworld.lexicon import AWAY, GENRES, HOME, UNTRAINED, Genre, with_few
from spikelm.data.microworld.opinions import opinion
from spikelm.data.microworld.paraphrases import duplicate_pair, graded_pair, paraphrase_pair
from spikelm.data.microworld.world import ENTAILMENT, NEUTRAL

Row = dict[str, Any]

# The tasks of two texts, which ask whether they name the same people and things. With few of these a mini model
# learns to compare them in hundreds of steps; with all of them it is still at chance after a thousand.
TWO_TEXT_TASKS: tuple[str, ...] = ("mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
_FEW = with_few(HOME)
# MNLI's other genre: all is of `away` but the people. Models of this size compare names that they were trained to
# compare; with names of `away` as well, which were in pretraining only, every one of them is at chance.
_MISMATCHED = replace(with_few(AWAY), men=_FEW.men, women=_FEW.women)

_BUCKETS = 10
_BLOCK = 100


@dataclass(frozen=True)
class Part:
    """The scenes of one split: a tenth of all scenes each for validation and test, the others for train."""

    name: str

    def __call__(self, key: str) -> bool:
        """Whether the scene with this key belongs here."""
        bucket = zlib.crc32(key.encode()) % _BUCKETS
        return self.name == {0: "validation", 1: "test"}.get(bucket, "train")


# A maker takes the roll that decides the label, so that a rejected row is redrawn with the same label.
Maker = Callable[[random.Random, Genre, Part, float], Row]


def _cola(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    while True:
        good, bad = minimal_pair(rng, genre)
        # The words of the shorter one: a pair, and all pairs that share the sentence that lost a word, stay together.
        words, broken = sorted(good.split()), sorted(bad.split())
        if belongs(" ".join(broken if len(broken) < len(words) else words)):
            break
    acceptable = roll < 0.7
    return {"sentence": good if acceptable else bad, "label": int(acceptable)}


def _sst2(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(2 * roll)
    while True:
        sentence = opinion(rng, genre, bool(label))
        words = sentence.split()
        if belongs(" ".join(sorted(words))) and (belongs.name != "train" or UNTRAINED.isdisjoint(words)):
            return {"sentence": sentence, "label": label}


def _mrpc(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(roll < 0.68)
    first, second = paraphrase_pair(rng, genre, belongs, bool(label))
    return {"sentence1": first, "sentence2": second, "label": label}


def _stsb(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    first, second, score = graded_pair(rng, genre, belongs)
    return {"sentence1": first, "sentence2": second, "label": score}


def _qqp(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(roll < 0.37)
    first, second = duplicate_pair(rng, genre, belongs, bool(label))
    return {"question1": first, "question2": second, "label": label}


def _mnli(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(3 * roll)
    premise, hypothesis = inference_pair(rng, genre, belongs, label, company=0.15)
    return {"premise": premise, "hypothesis": hypothesis, "label": label}


def _qnli(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(2 * roll)
    question, sentence = question_pair(rng, genre, belongs, label == ENTAILMENT)
    return {"question": question, "sentence": sentence, "label": label}


def _rte(rng: random.Random, genre: Genre, belongs: Part, roll: float) -> Row:
    label = int(2 * roll)
    verdict = rng.choice((NEUTRAL, NEUTRAL + 1)) if label else ENTAILMENT
    first, second = inference_pair(rng, genre, belongs, verdict, company=0.2)
    return {"sentence1": first, "sentence2": second, "label": label}


MAKERS: dict[str, Maker] = {
    "cola": _cola,
    "sst2": _sst2,
    "mrpc": _mrpc,
    "stsb": _stsb,
    "qqp": _qqp,
    "mnli": _mnli,
    "qnli": _qnli,
    "rte": _rte,
}


def _genres(task: str, split: str) -> tuple[Genre, ...]:
    if task not in TWO_TEXT_TASKS:
        return GENRES
    return (_MISMATCHED,) if split.endswith("mismatched") else (_FEW,)


def _rolls(rng: random.Random) -> Iterator[float]:
    """Even draws from [0, 1) that cover it once in every block, so that labels keep their shares."""
    while True:
        block = [(step + rng.random()) / _BLOCK for step in range(_BLOCK)]
        rng.shuffle(block)
        yield from block


def _stream(task: str, split: str, rng: random.Random) -> Iterator[Row]:
    """Rows without end, no text of which comes twice."""
    genres, part = _genres(task, split), Part(split.split("_")[0])
    seen: set[tuple[str, ...]] = set()
    for roll in _rolls(rng):
        while True:
            row = MAKERS[task](rng, rng.choice(genres), part, roll)
            texts = tuple(value for value in row.values() if isinstance(value, str))
            if texts not in seen:
                break
        seen.add(texts)
        yield row


def make_rows(task: str, split: str, count: int, seed_text: str) -> list[Row]:
    """The first count rows of a split, which do not depend on any other split."""
    rows = list(islice(_stream(task, split, random.Random(f"{seed_text}/{task}/{split}")), count))
    for index, row in enumerate(rows):
        row["idx"] = index
        if split.startswith("test"):
            row["label"] = -1.0 if task == "stsb" else -1
    return rows
