"""The pretraining corpus: short documents about one scene, told, retold, asked about and judged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from spikelm.data.microworld.entailment import IN_DOCUMENTS, clash, other_verb
from spikelm.data.microworld.grammar import minimal_pair
from spikelm.data.microworld.lexicon import GENRES, KIND_OF, Genre, plural
from spikelm.data.microworld.opinions import opinion
from spikelm.data.microworld.wording import any_form, statement, wh_question, yes_no_question
from spikelm.data.microworld.world import CORE, OPTIONAL, Fact, other_value, sample_fact


def cast(rng: random.Random, genre: Genre) -> Genre:
    """The few people, things, places and times of one scene, as a small genre of its own."""
    kinds = rng.sample(tuple(genre.kinds), 3)
    return replace(
        genre,
        men=tuple(rng.sample(genre.men, 2)),
        women=tuple(rng.sample(genre.women, 2)),
        kinds={kind: (rng.choice(genre.kinds[kind]),) for kind in kinds},
        places=tuple(rng.sample(genre.places, 2)),
        times=tuple(rng.sample(genre.times, 2)),
        reviewed=tuple(rng.sample(genre.reviewed, 2)),
    )


def _told(rng: random.Random, fact: Fact) -> tuple[str, ...]:
    options = OPTIONAL[fact.frame]
    return tuple(rng.sample(options, len(options) - 1))


def _retold(rng: random.Random, fact: Fact, told: tuple[str, ...], form: int) -> str:
    fewer = tuple(rng.sample(told, rng.randint(0, len(told))))
    if fact.theme and rng.random() < 0.15:
        fact = fact.change("theme", KIND_OF[fact.theme])
    # Some retellings keep the construction: copying a word is learned there first.
    return f"{statement(rng, fact.only(fewer), form=form if rng.random() < 0.4 else None)} ."


def _denied(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...]) -> str:
    detail = told[:1] if rng.random() < 0.5 else ()
    return f"{statement(rng, clash(rng, genre, fact, detail, IN_DOCUMENTS).only(detail), negated=True)} ."


def _phrase(fact: Fact, slot: str) -> str:
    """The value of a slot as a short answer."""
    value = str(getattr(fact, slot))
    if slot == "theme" and fact.number:
        return f"{fact.number} {plural(value)}"
    if slot == "theme" or (fact.frame == "spatial" and slot in ("agent", "partner")):
        return f"the {value}"
    return value


def _judged(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...]) -> str:
    """A yes/no question with the answer that the told fact gives, and its reason."""
    detail = (rng.choice(told),) if rng.random() < 0.5 else ()
    (hidden,) = set(OPTIONAL[fact.frame]) - set(told)
    roll = rng.random()
    if roll < 0.35:
        return f"{yes_no_question(rng, fact.only(detail))} yes , that is so ."
    if roll < 0.75:
        if fact.partner and rng.random() < 0.25:
            return f"{yes_no_question(rng, fact.swapped().only(detail))} no , the other way round ."
        slot = rng.choice((*CORE[fact.frame], *detail))
        asked = fact.change(slot, other_value(rng, genre, fact, slot))
        return f"{yes_no_question(rng, asked.only(detail))} no , it was {_phrase(fact, slot)} ."
    if rng.random() < 0.6:
        reason = {"place": "where", "time": "when", "colour": "which colour"}[hidden]
        return f"{yes_no_question(rng, fact.only((hidden,)))} maybe , nobody said {reason} ."
    return f"{yes_no_question(rng, other_verb(rng, genre, fact).only(detail))} maybe , nobody said so ."


def _answered(rng: random.Random, fact: Fact, told: tuple[str, ...]) -> str:
    """A wh-question and its short answer."""
    slots = [slot for slot in (*CORE[fact.frame], *told) if slot not in ("number", "colour")]
    slot = rng.choice(slots)
    answer = fact.number if slot == "theme" and fact.number else _phrase(fact, slot)
    return f"{wh_question(rng, fact.only(()), slot)} {answer} ."


def _about(rng: random.Random, genre: Genre, fact: Fact) -> Iterator[str]:
    """The fact told once and then come back to."""
    told, form = _told(rng, fact), any_form(rng, fact)
    yield f"{statement(rng, fact.only(told), form=form)} ."
    for _ in range(rng.randint(3, 5)):
        roll = rng.random()
        if roll < 0.4:
            yield _retold(rng, fact, told, form)
        elif roll < 0.45:
            yield _denied(rng, genre, fact, told)
        elif roll < 0.75:
            yield _judged(rng, genre, fact, told)
        else:
            yield _answered(rng, fact, told)


def _together(rng: random.Random, first: Fact, second: Fact) -> str:
    """Both facts in one sentence."""
    told = [statement(rng, fact.only(())) for fact in (first, second)]
    return f"{rng.choice((' and ', ' , while ')).join(told)} ."


def document(rng: random.Random) -> list[str]:
    """One document: two facts of a scene, a remark on its things, and an opinion."""
    genre = cast(rng, rng.choice(GENRES))
    first = sample_fact(rng, genre)
    second = sample_fact(rng, genre)
    while second.verb == first.verb:
        second = sample_fact(rng, genre)
    parts = [list(_about(rng, genre, first)), list(_about(rng, genre, second))]
    parts.append([minimal_pair(rng, genre)[0] for _ in range(2)])
    if rng.random() < 0.5:
        good = rng.random() < 0.5
        parts.append([opinion(rng, genre, good) for _ in range(3)])
    if rng.random() < 0.4:
        parts.append([_together(rng, first, second)])
    rng.shuffle(parts)
    return [sentence for part in parts for sentence in part]
