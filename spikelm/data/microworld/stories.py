"""Summarisation: stories in which two people appear, and the one sentence that says what one of them did."""

from __future__ import annotations

import random
from typing import NamedTuple

from spikelm.data.microworld.events import EVENTS, Event
from spikelm.data.microworld.news import (
    DAYS,
    INTRODUCTIONS,
    MEN,
    MONTHS,
    OPENINGS,
    REMARKS,
    SURNAMES,
    TOWNS,
    TRADES,
    WOMEN,
)

SMALL_NUMBERS: tuple[str, ...] = ("seven", "eight", "nine", "eleven", "twelve", "fifteen", "eighteen")
VOTES: tuple[str, ...] = ("ninety", "eighty", "seventy", "sixty", "fifty", "forty", "thirty", "twenty")


class Actor(NamedTuple):
    """Somebody with a name, a trade and a home."""

    first: str
    surname: str
    trade: str
    town: str
    his: bool

    @property
    def pronouns(self) -> tuple[str, str, str]:
        return ("he", "him", "his") if self.his else ("she", "her", "her")


class Story(NamedTuple):
    """The sentences of an event and what they come to."""

    sentences: list[str]
    summary: str


def cast(rng: random.Random) -> tuple[Actor, Actor]:
    """Two people who share nothing."""
    surnames, trades, towns = rng.sample(SURNAMES, 2), rng.sample(tuple(TRADES), 2), rng.sample(TOWNS, 2)
    men = rng.random() < 0.5, rng.random() < 0.5
    firsts = [rng.choice(MEN if his else WOMEN) for his in men]
    first, second = (Actor(*fields) for fields in zip(firsts, surnames, trades, towns, men, strict=True))
    return first, second


def introduced(rng: random.Random, actor: Actor) -> str:
    """Name, trade and home; half of the time the trade is told by what is done."""
    trade = TRADES[actor.trade] if rng.random() < 0.5 else f"works as a {actor.trade}"
    return rng.choice(INTRODUCTIONS).format(full=f"{actor.first} {actor.surname}", trade=trade, town=actor.town)


def happening(rng: random.Random, event: Event, hero: Actor, other: Actor) -> Story:
    """The pieces of an event in order, and the summary of the ending that was drawn."""
    he, him, his = hero.pronouns
    at = sorted(rng.sample(range(len(VOTES)), 2))
    words = {
        "hero": hero.surname,
        "other": other.surname,
        "he": he,
        "He": he.capitalize(),
        "him": him,
        "his": his,
        "him2": other.pronouns[1],
        "month": rng.choice(MONTHS),
        "number": rng.choice(SMALL_NUMBERS),
        "more": VOTES[at[0]],
        "fewer": VOTES[at[1]],
    }
    summed = {"role": hero.trade, "town": hero.town, "role2": other.trade}
    for slot, options in event.slots.items():
        words[slot], summed[slot] = rng.choice(options)
    last, summary = rng.choice(event.endings)
    pieces = [rng.choice(choices).format(**words) for choices in (*event.told, last)]
    return Story([piece[0].upper() + piece[1:] for piece in pieces], summary.format(**summed))


def story(rng: random.Random) -> tuple[str, str]:
    """A document of about 60 words and its summary; who, what, where and how it ended stand in different sentences."""
    hero, other = cast(rng)
    event = happening(rng, EVENTS[rng.choice(tuple(EVENTS))], hero, other)
    people = [introduced(rng, actor) for actor in (hero, other)]
    rng.shuffle(people)
    remark = [rng.choice(REMARKS)] if rng.random() < 0.6 else []
    opening = rng.choice(OPENINGS).format(day=rng.choice(DAYS))
    return " ".join([opening, *people, *event.sentences[:-1], *remark, event.sentences[-1]]), event.summary
