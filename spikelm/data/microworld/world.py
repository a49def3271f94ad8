"""Facts, scenes and the one rule that decides what a known fact says about a claim."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from spikelm.data.microworld.lexicon import COLOURS, KIND_OF, NUMBERS, Genre

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2

FRAMES: tuple[str, ...] = ("transfer", "social", "handle", "spatial", "compare", "order", "count")
# The participants that a sentence of the frame always names.
CORE: dict[str, tuple[str, ...]] = {
    "transfer": ("agent", "theme", "partner"),
    "social": ("agent", "partner"),
    "handle": ("agent", "theme"),
    "spatial": ("agent", "partner"),
    "compare": ("agent", "partner"),
    "order": ("agent", "partner"),
    "count": ("agent", "number", "theme"),
}
# The details that a sentence of the frame may leave out.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "transfer": ("colour", "place", "time"),
    "social": ("place", "time"),
    "handle": ("colour", "place", "time"),
    "spatial": ("place", "time"),
    "compare": ("place", "time"),
    "order": ("place", "time"),
    "count": ("colour", "place", "time"),
}
SLOTS: tuple[str, ...] = ("agent", "partner", "theme", "number", "colour", "place", "time")


class Fact(NamedTuple):
    """One event or state; a slot that is None is not told."""

    frame: str
    verb: str
    agent: str | None = None
    partner: str | None = None
    theme: str | None = None
    number: str | None = None
    colour: str | None = None
    place: str | None = None
    time: str | None = None

    def only(self, details: tuple[str, ...]) -> Fact:
        """The same fact with no optional slot told but those in details."""
        hidden: dict[str, Any] = {slot: None for slot in OPTIONAL[self.frame] if slot not in details}
        return self._replace(**hidden)

    def change(self, slot: str, value: str | None) -> Fact:
        """The same fact with another value in one slot."""
        changed: dict[str, Any] = {slot: value}
        return self._replace(**changed)

    def swapped(self) -> Fact:
        """The same fact with the two participants in each other's role."""
        return self._replace(agent=self.partner, partner=self.agent)

    def key(self) -> str:
        """What identifies the scene of this fact: its verb and participants, in any role."""
        people = sorted(value for value in (self.agent, self.partner) if value)
        return " ".join((self.verb, *people, self.theme or ""))


def values(genre: Genre, frame: str, slot: str) -> tuple[str, ...]:
    """Every value that a slot of the frame can take in the genre."""
    if slot in ("agent", "partner"):
        return genre.things if frame == "spatial" else genre.people
    if slot == "theme":
        return genre.things
    return {"number": NUMBERS, "colour": COLOURS, "place": genre.places, "time": genre.times}[slot]


def other_value(rng: random.Random, genre: Genre, fact: Fact, slot: str) -> str:
    """A value for the slot that makes the fact false, whatever the level at which it is told."""
    taken = {fact.agent, fact.partner, fact.theme, getattr(fact, slot)}
    kinds = {KIND_OF.get(value or "", value) for value in taken}
    while True:
        value = rng.choice(values(genre, fact.frame, slot))
        # Two things of one kind share a hypernym, so they would not clash once told generically.
        if value not in taken and (slot != "theme" or KIND_OF[value] not in kinds):
            return value


def sample_core(rng: random.Random, genre: Genre, frame: str | None = None) -> Fact:
    """A fact with its participants and no details."""
    frame = frame or rng.choice(FRAMES)
    filled: dict[str, Any] = {}
    for slot in CORE[frame]:
        value = rng.choice(values(genre, frame, slot))
        while value == filled.get("agent"):
            value = rng.choice(values(genre, frame, slot))
        filled[slot] = value
    return Fact(frame, rng.choice(genre.verbs[frame]), **filled)


def with_details(rng: random.Random, genre: Genre, fact: Fact) -> Fact:
    """The fact with every optional slot filled as well."""
    details: dict[str, Any] = {slot: rng.choice(values(genre, fact.frame, slot)) for slot in OPTIONAL[fact.frame]}
    return fact._replace(**details)


def sample_fact(rng: random.Random, genre: Genre, frame: str | None = None) -> Fact:
    """A fact with every slot of its frame filled."""
    return with_details(rng, genre, sample_core(rng, genre, frame))


def second_fact(rng: random.Random, genre: Genre, first: Fact) -> Fact:
    """Another fact of the same scene: another verb, and often one of the same people."""
    while True:
        fact = sample_fact(rng, genre)
        if fact.verb != first.verb:
            break
    people = [value for value in (first.agent, first.partner) if value in genre.people]
    if people and fact.frame != "spatial" and rng.random() < 0.5:
        slot = rng.choice([slot for slot in ("agent", "partner") if getattr(fact, slot)])
        person = rng.choice(people)
        if person not in (fact.agent, fact.partner):
            fact = fact.change(slot, person)
    return fact


def agreement(slot: str, known: str | None, claimed: str | None) -> int:
    """The verdict of one slot: a specific thing entails its kind, and a kind leaves the thing open."""
    if claimed is None or known == claimed:
        return ENTAILMENT
    if known is None:
        return NEUTRAL
    if slot == "theme" and KIND_OF.get(known) == claimed:
        return ENTAILMENT
    if slot == "theme" and KIND_OF.get(claimed) == known:
        return NEUTRAL
    return CONTRADICTION


def judge(known: Fact, claim: Fact, negated: bool = False) -> int:
    """What a text that tells one fact says about a claim; a verb happens once in a scene."""
    if (known.frame, known.verb) != (claim.frame, claim.verb):
        return NEUTRAL
    verdict = max(agreement(slot, getattr(known, slot), getattr(claim, slot)) for slot in SLOTS)
    return CONTRADICTION - verdict if negated else verdict
