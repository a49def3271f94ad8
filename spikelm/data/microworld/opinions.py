"""SST-2: what the writer thinks, told plainly, under negation, by contrast, and next to what others think."""

from __future__ import annotations

import random
from collections.abc import Callable

from spikelm.data.microworld.lexicon import DISLIKING, LIKING, NEGATIVE, POSITIVE, Genre

# A verdict is True when the opinion is good.
Maker = Callable[[random.Random, Genre, bool], str]


def _adjective(rng: random.Random, good: bool) -> str:
    return rng.choice(POSITIVE if good else NEGATIVE)


def _feeling(rng: random.Random, good: bool) -> str:
    return rng.choice(LIKING if good else DISLIKING)


def _item(rng: random.Random, genre: Genre) -> str:
    owner = f"{rng.choice(genre.people)} 's" if rng.random() < 0.3 else rng.choice(("the", "this", "the new"))
    return f"{owner} {rng.choice(genre.reviewed)}"


def plain(rng: random.Random, genre: Genre, good: bool) -> str:
    """One or two opinion words that mean what they say."""
    if rng.random() < 0.4:
        return f"i {_feeling(rng, good)} {_item(rng, genre)} {rng.choice(genre.times)}"
    degree = rng.choice(("was", "was very", "was so", "felt"))
    tail = f" and {_adjective(rng, good)}" if rng.random() < 0.5 else f" {rng.choice(genre.times)}"
    return f"{_item(rng, genre)} {degree} {_adjective(rng, good)}{tail}"


def negated(rng: random.Random, genre: Genre, good: bool) -> str:
    """An opinion word turned round by a negation, mostly one that is not next to it."""
    item, word, person = _item(rng, genre), _adjective(rng, not good), rng.choice(genre.people)
    shapes = (
        f"{item} was not {word} at all",
        f"{item} was never for a moment {word}",
        f"nobody could call {item} {word}",
        f"i did not find {item} {word}",
        f"i do not think that {item} was {word}",
        f"not even {person} found {item} {word}",
    )
    return rng.choice(shapes)


def contrast(rng: random.Random, genre: Genre, good: bool) -> str:
    """Two opinions of which the main clause counts."""
    item, other, own = _item(rng, genre), _adjective(rng, not good), _adjective(rng, good)
    shapes = (
        f"{item} was {other} at first , but it was {own} in the end",
        f"{item} was {own} in the end , but it was {other} at first",
        f"although {item} was {other} , it was {own} in the end",
        f"{item} was {own} , although the start was {other}",
    )
    return rng.choice(shapes)


def others(rng: random.Random, genre: Genre, good: bool) -> str:
    """Somebody else's opinion, and the writer's."""
    item, name = _item(rng, genre), rng.choice(genre.people)
    own, theirs = _feeling(rng, good), _feeling(rng, not good)
    shapes = (
        f"{name} really {theirs} {item} , but i really {own} it",
        f"i really {own} {item} , but {name} really {theirs} it",
        f"{name} called {item} {_adjective(rng, not good)} , and {name} was wrong",
        f"{name} called {item} {_adjective(rng, good)} , and {name} was right",
    )
    return rng.choice(shapes)


def compared(rng: random.Random, genre: Genre, good: bool) -> str:
    """The item against an earlier one of which something is said."""
    item, old = _item(rng, genre), rng.choice(genre.reviewed)
    word = _adjective(rng, good)
    if rng.random() < 0.5:
        return f"{item} was {word} , unlike the {_adjective(rng, not good)} old {old}"
    return f"unlike the {_adjective(rng, not good)} old {old} , {item} was {word}"


MAKERS: tuple[Maker, ...] = (plain, negated, contrast, others, compared)
WEIGHTS: tuple[int, ...] = (4, 4, 3, 4, 1)


def opinion(rng: random.Random, genre: Genre, good: bool) -> str:
    """A sentence whose writer holds the opinion good (or bad)."""
    (maker,) = rng.choices(MAKERS, WEIGHTS)
    return f"{maker(rng, genre, good)} ."
