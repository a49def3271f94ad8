"""The pretraining corpus: short documents about one scene, told, retold, asked about and judged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from spikelm.data.microworld.grammar import minimal_pair
from spikelm.data.microworld.inference import clash, other_verb
from spikelm.data.microworld.lexicon import GENRES, KIND_OF, Genre
from spikelm.data.microworld.opinions import opinion
from spikelm.data.microworld.sentences import statement, wh_question, yes_no_question
from spikelm.data.microworld.world import CORE, OPTIONAL, Fact, sample_fact


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
    return tuple(rng.sample(options, max(0, len(options) - 1)))


def _retold(rng: random.Random, fact: Fact, told: tuple[str, ...]) -> str:
    fewer = tuple(rng.sample(told, rng.randint(0, len(told))))
    if fact.theme and rng.random() < 0.15:
        fact = fact.change("theme", KIND_OF[fact.theme])
    return f"{statement(rng, fact.only(fewer))} ."


def _denied(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...]) -> str:
    detail = told[:1] if rng.random() < 0.5 else ()
    return f"{statement(rng, clash(rng, genre, fact, detail).only(detail), negated=True)} ."


def _judged(rng: random.Random, genre: Genre, fact: Fact, told: tuple[str, ...]) -> str:
    """A yes/no question with the answer that the told fact gives."""
    detail = told[:1] if rng.random() < 0.5 else ()
    hidden = tuple(slot for slot in OPTIONAL[fact.frame] if slot not in told)
    roll = rng.random()
    if roll < 0.4:
        return f"{yes_no_question(rng, fact.only(detail))} yes ."
    if roll < 0.75:
        return f"{yes_no_question(rng, clash(rng, genre, fact, detail).only(detail))} no ."
    if hidden and rng.random() < 0.6:
        return f"{yes_no_question(rng, fact.only(hidden))} maybe ."
    return f"{yes_no_question(rng, other_verb(rng, genre, fact).only(detail))} maybe ."


def _answered(rng: random.Random, fact: Fact, told: tuple[str, ...]) -> str:
    """A wh-question and its short answer."""
    slots = [slot for slot in (*CORE[fact.frame], *told) if slot not in ("number", "colour")]
    slot = rng.choice(slots)
    answer = str(getattr(fact, slot))
    if slot == "theme" and fact.number:
        answer = fact.number
    elif slot == "theme" or (fact.frame == "spatial" and slot in ("agent", "partner")):
        answer = f"the {answer}"
    return f"{wh_question(rng, fact.only(()), slot)} {answer} ."


def _about(rng: random.Random, genre: Genre, fact: Fact) -> Iterator[str]:
    """The fact told once and then come back to."""
    told = _told(rng, fact)
    yield f"{statement(rng, fact.only(told))} ."
    for _ in range(rng.randint(2, 4)):
        roll = rng.random()
        if roll < 0.4:
            yield _retold(rng, fact, told)
        elif roll < 0.5:
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
        parts.append([opinion(rng, genre, good) for _ in range(2)])
    if rng.random() < 0.4:
        parts.append([_together(rng, first, second)])
    rng.shuffle(parts)
    return [sentence for part in parts for sentence in part]
