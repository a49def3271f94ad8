"""A clause in English and Romanian: tense, negation, question, and the pronouns that go with the verb."""

from __future__ import annotations

import random
from typing import NamedTuple

from spikelm.data.microworld.phrases import Phrase
from spikelm.data.microworld.romanian_verbs import FEMININE, FUTURE, HE, PERFECT, REFLEXIVE, SELF, VERBS, Clitic, Verb

TENSES: tuple[str, ...] = ("simple", "continuous", "past", "future", "wish")
TIMES: dict[str, tuple[tuple[str, str], ...]] = {
    "simple": (("every day", "în fiecare zi"), ("in the evening", "seara")),
    "continuous": (("now", "acum"),),
    "past": (("yesterday", "ieri"), ("last week", "săptămâna trecută"), ("this morning", "azi-dimineață")),
    "future": (("tomorrow", "mâine"), ("next week", "săptămâna viitoare"), ("tonight", "diseară")),
    "wish": (("today", "astăzi"), ("tomorrow", "mâine")),
}


class Clause(NamedTuple):
    """Who does what, before it becomes words."""

    subject: Phrase
    verb: Verb
    tense: str
    objects: tuple[str, str]  # English, Romanian
    clitic: Clitic | None = None


def english_verb(verb: Verb, subject: Phrase, tense: str, negated: bool = False) -> tuple[str, str]:
    """The auxiliary, if any, and the rest: what a question puts its subject between."""
    third = subject.person == HE
    no = "not " if negated else ""
    if tense == "continuous":
        return {SELF: "am", HE: "is"}.get(subject.person, "are"), no + verb.ing
    if tense == "future":
        return "will", no + verb.en
    if tense == "past":
        return "did", no + verb.en
    return ("does" if third else "do"), no + (f"want to {verb.en}" if tense == "wish" else verb.en)


def plain_verb(verb: Verb, subject: Phrase, tense: str) -> str:
    """The verb of a statement: without do."""
    if tense == "past":
        return verb.past
    if tense in ("continuous", "future"):
        return " ".join(english_verb(verb, subject, tense))
    third = subject.person == HE
    return f"want{'s' * third} to {verb.en}" if tense == "wish" else verb.third if third else verb.en


def romanian_verb(
    verb: Verb, person: int, tense: str, negated: bool = False, clitic: Clitic | None = None
) -> tuple[str, str]:
    """The verb with its pronoun and negation; a wish has a second part, behind `să`."""
    clitic = REFLEXIVE[person] if verb.reflexive else clitic
    alone = f"{clitic.alone} " if clitic else ""
    no = "nu " if negated else ""
    if tense == "wish":
        return f"{no}{VERBS['want'].present[person]}", f"să {alone}{verb.after_sa(person)}"
    if tense == "future":
        return f"{no}{alone}{FUTURE[person]} {verb.infinitive}", ""
    if tense == "past":
        if clitic == FEMININE:
            return f"{no}{PERFECT[person]} {verb.participle}-o", ""
        return f"{no}{clitic.joined if clitic else ''}{PERFECT[person]} {verb.participle}", ""
    return f"{no}{alone}{verb.present[person]}", ""


def sentence(*words: str, end: str = ".") -> str:
    """Words as a sentence."""
    text = " ".join(word for word in words if word)
    return f"{text[0].upper()}{text[1:]}{end}"


def told(rng: random.Random, clause: Clause, time_share: float = 0.4) -> tuple[str, str]:
    """A clause as statement, denial or question, with a time or without."""
    subject, verb, tense, (en, ro), clitic = clause
    roll = rng.random()
    negated, asked = roll < 0.2, roll > 0.85
    time = rng.choice(TIMES[tense]) if rng.random() < time_share else ("", "")
    if negated and tense == "simple":
        time = ("", "")  # "every day she does not" is hard to understand
    first, last = ("", ""), time
    if time[0] and not asked and rng.random() < 0.4:
        first, last = time, ("", "")
    head, tail = romanian_verb(verb, subject.person, tense, negated, clitic)
    if asked:
        helper, rest = english_verb(verb, subject, tense)
        left = sentence(helper, subject.en, rest, en, last[0], end="?")
        return left, sentence(head, subject.ro, tail, ro, last[1], end="?")
    verbs = " ".join(english_verb(verb, subject, tense, True)) if negated else plain_verb(verb, subject, tense)
    left = sentence(first[0], subject.en, verbs, en, last[0])
    return left, sentence(first[1], subject.ro, head, tail, ro, last[1])
