"""MRPC, QQP and STS-B: the same fact or question in two constructions, or a near miss of it."""

from __future__ import annotations

import random

from spikelm.data.microworld.entailment import Belongs, clash, other_verb, scene_fact, told_by_question, unrelated
from spikelm.data.microworld.lexicon import KIND_OF, Genre
from spikelm.data.microworld.wording import distinct_forms, statement, wh_question, yes_no_question
from spikelm.data.microworld.world import CORE, OPTIONAL, Fact, other_value


def _details(rng: random.Random, fact: Fact, most: int) -> tuple[str, ...]:
    options = OPTIONAL[fact.frame]
    return tuple(rng.sample(options, min(len(options), rng.randint(0, most))))


def _paraphrasable(rng: random.Random, genre: Genre, belongs: Belongs) -> Fact:
    """A fact that can be told in two ways; what cannot would only ever come with one label."""
    while True:
        fact = scene_fact(rng, genre, belongs)
        if len(distinct_forms(fact)) > 1:
            return fact


def _near_miss(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...]) -> Fact:
    return unrelated(rng, genre, fact) if rng.random() < 0.25 else clash(rng, genre, fact, told)


def paraphrase_pair(rng: random.Random, genre: Genre, belongs: Belongs, same: bool) -> tuple[str, str]:
    """Two statements that do, or do not, tell the same fact."""
    fact = _paraphrasable(rng, genre, belongs)
    told = _details(rng, fact, 2)
    other = fact if same else _near_miss(rng, genre, fact, told)
    first, second = rng.sample(distinct_forms(fact), 2)
    said, retold = statement(rng, fact.only(told), form=first), statement(rng, other.only(told), form=second)
    return f"{said} .", f"{retold} ."


def duplicate_pair(rng: random.Random, genre: Genre, belongs: Belongs, same: bool) -> tuple[str, str]:
    """Two questions that do, or do not, ask the same."""
    while True:
        slot, slots = "", [""]
        fact = _paraphrasable(rng, genre, lambda key: True)
        told = _details(rng, fact, 1)
        if rng.random() > 0.3:
            hidden = ("number", "colour", *told)
            slots = [name for name in CORE[fact.frame] + OPTIONAL[fact.frame] if name not in hidden]
            slot = rng.choice(slots)
        # The scene of a question is what it tells: the answer is not part of it.
        if belongs(told_by_question(fact, slot).key()):
            break
    first, second = rng.sample(distinct_forms(fact), 2)
    other = fact if same else _near_miss(rng, genre, fact, told)
    asked = slot
    while slot and not same and (asked, told_by_question(other, slot)) == (slot, told_by_question(fact, slot)):
        if rng.random() < 0.3:
            asked = rng.choice(slots)
        else:
            other = _near_miss(rng, genre, fact, told)
    return _question(rng, fact.only(told), slot, first), _question(rng, other.only(told), asked, second)


def _question(rng: random.Random, fact: Fact, slot: str, form: int) -> str:
    return wh_question(rng, told_by_question(fact, slot), slot, form) if slot else yes_no_question(rng, fact, form)


def similarity(first: Fact, second: Fact) -> float:
    """0 to 5: the share of verb, participants and told details on which two facts of one frame agree."""
    credits = [float(first.verb == second.verb)]
    for slot in CORE[first.frame] + OPTIONAL[first.frame]:
        one, other = getattr(first, slot), getattr(second, slot)
        if one is None and other is None:
            continue
        person_moved = slot in ("agent", "partner") and other in (first.agent, first.partner)
        same_kind = slot == "theme" and KIND_OF[one] == KIND_OF[other]
        credits.append(1.0 if one == other else 0.5 if person_moved or same_kind else 0.0)
    return round(5 * sum(credits) / len(credits), 2)


def graded_pair(rng: random.Random, genre: Genre, belongs: Belongs) -> tuple[str, str, float]:
    """Two statements and how much of what they tell is the same."""
    fact = scene_fact(rng, genre, belongs)
    told = _details(rng, fact, 2)
    slots = ["verb", *CORE[fact.frame], *told]
    other = fact
    for slot in rng.sample(slots, rng.randint(0, len(slots))):
        if slot == "verb":
            other = other_verb(rng, genre, other)
        elif slot == "theme" and rng.random() < 0.3:
            kind = genre.kinds[KIND_OF[str(fact.theme)]]
            other = other.change("theme", rng.choice([thing for thing in kind if thing != fact.theme]))
        elif slot in ("place", "time", "colour") and rng.random() < 0.3:
            told = tuple(name for name in told if name != slot)
        else:
            other = other.change(slot, other_value(rng, genre, other, slot))
    if other.partner and rng.random() < 0.15:
        other = other.swapped()
    fact_told = fact.only(tuple(name for name in slots if name in OPTIONAL[fact.frame]))
    other = other.only(told)
    return f"{statement(rng, fact_told)} .", f"{statement(rng, other)} .", similarity(fact_told, other)
