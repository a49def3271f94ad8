"""MNLI, RTE and QNLI: what a text says about a claim, and whether it answers a question.

The shape of either text (details told, construction, negation, level of the noun) is drawn without looking
at the label, so that neither text alone says anything about it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from spikelm.data.microworld.lexicon import KIND_OF, Genre
from spikelm.data.microworld.wording import any_form, statement, wh_question
from spikelm.data.microworld.world import (
    CONTRADICTION,
    CORE,
    ENTAILMENT,
    NEUTRAL,
    OPTIONAL,
    Fact,
    judge,
    other_value,
    sample_core,
    second_fact,
    with_details,
)

Belongs = Callable[[str], bool]

# What makes the tasks easy or hard: how often a claim or question keeps the construction of the text, how often a
# claim is denied, and (Odds) how a false one is made.
_SAME_FORM = 0.75
_NEGATED = 0.1


class Odds(NamedTuple):
    """How often a false fact has its participants swapped, and how often 1, 2, 3 of its slots are false."""

    swapped: float
    changes: tuple[int, int, int]


IN_TASKS = Odds(0.05, (1, 3, 6))
IN_DOCUMENTS = Odds(0.15, (4, 3, 3))


def scene_fact(rng: random.Random, genre: Genre, belongs: Belongs) -> Fact:
    """A full fact of a scene that belongs to the split."""
    while True:
        fact = sample_core(rng, genre)
        if belongs(fact.key()):
            return with_details(rng, genre, fact)


def other_verb(rng: random.Random, genre: Genre, fact: Fact, avoid: str = "") -> Fact:
    """The same participants in another event of the same frame."""
    verbs = [verb for verb in genre.verbs[fact.frame] if verb not in (fact.verb, avoid)]
    return fact._replace(verb=rng.choice(verbs))


def clash(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...], odds: Odds = IN_TASKS) -> Fact:
    """The fact with one to three told slots made false, or with its participants swapped."""
    slots = [*CORE[fact.frame], *told]
    if fact.partner and rng.random() < odds.swapped:
        return fact.swapped()
    (changes,) = rng.choices((1, 2, 3), odds.changes)
    for slot in rng.sample(slots, min(changes, len(slots))):
        fact = fact.change(slot, other_value(rng, genre, fact, slot))
    return fact


def unrelated(rng: random.Random, genre: Genre, fact: Fact, avoid: str = "") -> Fact:
    """Another event of the same frame, now and then with none of the participants."""
    other = other_verb(rng, genre, fact, avoid)
    if rng.random() < 0.2:
        for slot in CORE[fact.frame]:
            other = other.change(slot, other_value(rng, genre, other, slot))
    return other


def _levels(rng: random.Random, verdict: int) -> tuple[bool, bool]:
    """Whether premise and claim name the kind of the thing: equally often for every verdict."""
    roll = rng.random()
    if verdict == ENTAILMENT:
        return roll < 0.1, roll < 0.25
    if verdict == NEUTRAL:
        return roll < 0.1, 0.1 <= roll < 0.35
    return roll < 0.1, rng.random() < 0.25


def _generic(fact: Fact) -> Fact:
    return fact.change("theme", KIND_OF[str(fact.theme)])


def known_and_claim(rng: random.Random, genre: Genre, fact: Fact, verdict: int, avoid: str) -> tuple[Fact, Fact]:
    """A told fact and a positive claim about it that the told fact decides as the verdict says."""
    options = OPTIONAL[fact.frame]
    hidden = rng.choice(options)
    told = tuple(slot for slot in options if slot != hidden)
    detail: tuple[str, ...] = (rng.choice(told),) if rng.random() < 0.65 else ()
    up, claim_up = _levels(rng, verdict) if fact.theme else (False, False)
    claim = fact
    if verdict == CONTRADICTION:
        claim = clash(rng, genre, fact, detail)
    elif verdict == NEUTRAL and not (up and not claim_up):
        if detail and rng.random() < 0.7:
            detail = (hidden,)
        else:
            claim = unrelated(rng, genre, fact, avoid)
    known = _generic(fact) if up else fact
    claim = _generic(claim) if claim_up else claim
    return known.only(told), claim.only(detail)


def inference_pair(rng: random.Random, genre: Genre, belongs: Belongs, label: int, company: float) -> tuple[str, str]:
    """Premise and hypothesis with the label, the premise telling a second fact with probability company."""
    fact = scene_fact(rng, genre, belongs)
    extra = second_fact(rng, genre, fact) if rng.random() < company else None
    negated = rng.random() < _NEGATED
    verdict = CONTRADICTION - label if negated else label
    while True:
        known, claim = known_and_claim(rng, genre, fact, verdict, extra.verb if extra else "")
        if judge(known, claim, negated) == label:
            break
    form = any_form(rng, known)
    texts = [statement(rng, known, form=form)]
    if extra:
        texts.append(statement(rng, extra.only(())))
        rng.shuffle(texts)
    link = rng.choice((" and ", " . ", " , while "))
    claimed = statement(rng, claim, negated, form if rng.random() < _SAME_FORM else None)
    return f"{link.join(texts)} .", f"{claimed} ."


def told_by_question(fact: Fact, slot: str) -> Fact:
    """What a question for the slot tells of the fact: for a thing not its colour, for a count not its number."""
    if slot == "theme":
        fact, slot = fact.change("colour", None), "number" if fact.frame == "count" else "theme"
    return fact.change(slot, None) if slot else fact


def question_pair(rng: random.Random, genre: Genre, belongs: Belongs, answered: bool) -> tuple[str, str]:
    """A question and a sentence that does, or does not, answer it."""
    fact = scene_fact(rng, genre, belongs)
    adjuncts = ("place", "time")
    core = tuple(slot for slot in CORE[fact.frame] if slot != "number")
    slot = rng.choice(core + adjuncts)
    shown = slot if slot in adjuncts else rng.choice(adjuncts)
    colour = ("colour",) if "colour" in OPTIONAL[fact.frame] and rng.random() < 0.4 else ()
    generic = bool(fact.theme) and slot != "theme" and rng.random() < 0.2
    asked = fact.only(colour)
    if not answered:
        if slot in adjuncts and rng.random() < 0.5:
            shown = adjuncts[1 - adjuncts.index(slot)]
        else:
            asked = _unanswered(rng, genre, asked, slot, colour)
    form = any_form(rng, fact)
    same = form if rng.random() < _SAME_FORM else None
    question = wh_question(rng, _generic(asked) if generic else asked, slot, same)
    return question, f"{statement(rng, fact.only((*colour, shown)), form=form)} ."


def _unanswered(rng: random.Random, genre: Genre, fact: Fact, slot: str, told: tuple[str, ...]) -> Fact:
    """A fact that a text about another one leaves the question for the slot open on."""
    while True:
        asked = unrelated(rng, genre, fact) if rng.random() < 0.3 else clash(rng, genre, fact, told)
        if judge(told_by_question(fact, slot), told_by_question(asked, slot)) != ENTAILMENT:
            return asked
