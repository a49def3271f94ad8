"""Surface realisation: a fact as statements, denials and questions in several constructions."""

from __future__ import annotations

import random
from dataclasses import dataclass

from spikelm.data.microworld.lexicon import CONVERSE, INVERSE, SYNONYM, VERBS, plural
from spikelm.data.microworld.world import Fact


@dataclass(frozen=True)
class Chunk:
    """A phrase, the slot that it tells, and the preposition that stays when it is asked for."""

    slot: str
    words: str
    preposition: str = ""

    def text(self) -> str:
        """The phrase with its preposition."""
        return f"{self.preposition} {self.words}".strip()


@dataclass(frozen=True)
class Clause:
    """Subject, verb and complements of a fact in one construction."""

    subject: Chunk
    auxiliary: str
    main: str
    finite: str
    rest: tuple[Chunk, ...]


def _thing(fact: Fact) -> Chunk:
    words = ["the", fact.colour, fact.theme]
    return Chunk("theme", " ".join(word for word in words if word))


def _active(verb: str, subject: Chunk, *rest: Chunk) -> Clause:
    return Clause(subject, "did", VERBS[verb].base, VERBS[verb].past, rest)


def _passive(verb: str, subject: Chunk, *rest: Chunk) -> Clause:
    participle = VERBS[verb].participle
    return Clause(subject, "was", participle, f"was {participle}", rest)


def _state(relation: str, subject: Chunk, partner: Chunk) -> Clause:
    return Clause(subject, "was", "", "was", (Chunk(partner.slot, partner.words, relation),))


def _transfer(fact: Fact, form: int) -> Clause:
    agent, thing, partner = Chunk("agent", str(fact.agent)), _thing(fact), Chunk("partner", str(fact.partner))
    to, by = Chunk("partner", partner.words, "to"), Chunk("agent", agent.words, "by")
    if form == 0:
        return _active(fact.verb, agent, thing, to)
    if form == 1:
        return _active(fact.verb, agent, partner, thing)
    if form == 2:
        return _active(CONVERSE[fact.verb], partner, thing, Chunk("agent", agent.words, "from"))
    return _passive(fact.verb, thing, to, by)


def _two_sided(fact: Fact, form: int) -> Clause:
    agent, partner = Chunk("agent", str(fact.agent)), Chunk("partner", str(fact.partner))
    if fact.frame == "order":
        first, second, link = (agent, partner, "before") if form == 0 else (partner, agent, "after")
        return _active(fact.verb, first, Chunk(second.slot, second.words, link))
    relation = fact.verb if form == 0 else INVERSE[fact.verb]
    if fact.frame == "compare":
        relation += " than"
    else:
        agent, partner = Chunk("agent", f"the {fact.agent}"), Chunk("partner", f"the {fact.partner}")
    return _state(relation, agent, partner) if form == 0 else _state(relation, partner, agent)


def _plain(fact: Fact, form: int) -> Clause:
    agent = Chunk("agent", str(fact.agent))
    by = Chunk("agent", agent.words, "by")
    verb = SYNONYM.get(fact.verb, fact.verb) if form % 2 else fact.verb
    if fact.frame == "social":
        partner = Chunk("partner", str(fact.partner))
        return _active(verb, agent, partner) if form < 2 else _passive(verb, partner, by)
    if fact.frame == "handle":
        return _active(verb, agent, _thing(fact)) if form < 2 else _passive(verb, _thing(fact), by)
    noun = plural(fact.theme) if fact.theme else None
    counted = " ".join(word for word in (fact.number, fact.colour, noun) if word)
    return _active(verb, agent, Chunk("theme", counted))


FORMS: dict[str, int] = {
    "transfer": 4,
    "social": 4,
    "handle": 4,
    "spatial": 2,
    "compare": 2,
    "order": 2,
    "count": 2,
}


def clause(fact: Fact, form: int) -> Clause:
    """The fact in one of the FORMS of its frame, with its place and time at the end."""
    if fact.frame == "transfer":
        core = _transfer(fact, form)
    elif fact.frame in ("spatial", "compare", "order"):
        core = _two_sided(fact, form)
    else:
        core = _plain(fact, form)
    details = [(slot, getattr(fact, slot)) for slot in ("place", "time")]
    rest = core.rest + tuple(Chunk(slot, value) for slot, value in details if value)
    return Clause(core.subject, core.auxiliary, core.main, core.finite, rest)


def distinct_forms(fact: Fact) -> tuple[int, ...]:
    """The forms that tell the fact in different words: a form by synonym needs a verb that has one."""
    plain = fact.frame in ("social", "handle", "count") and fact.verb not in SYNONYM
    return tuple(range(0, FORMS[fact.frame], 2 if plain else 1))


def any_form(rng: random.Random, fact: Fact) -> int:
    """A construction that the fact can be told in."""
    return rng.randrange(FORMS[fact.frame])


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _tail(chunks: tuple[Chunk, ...]) -> str:
    return _join(*(chunk.text() for chunk in chunks))


def statement(rng: random.Random, fact: Fact, negated: bool = False, form: int | None = None) -> str:
    """The fact told (or denied) in a clause without its full stop."""
    told = clause(fact, any_form(rng, fact) if form is None else form)
    rest, front = told.rest, ""
    if rest and rest[-1].slot == "time" and rng.random() < 0.3:
        front, rest = rest[-1].text(), rest[:-1]
    verb = _join(told.auxiliary, "not", told.main) if negated else told.finite
    return _join(front, told.subject.text(), verb, _tail(rest))


def yes_no_question(rng: random.Random, fact: Fact, form: int | None = None) -> str:
    """The question whether the fact holds."""
    told = clause(fact, any_form(rng, fact) if form is None else form)
    return _join(told.auxiliary, told.subject.text(), told.main, _tail(told.rest), "?")


def wh_question(rng: random.Random, fact: Fact, slot: str, form: int | None = None) -> str:
    """The question for one slot of the fact; what it asks for is not told."""
    asked = {"place": "where", "time": "when", "theme": "what"}.get(slot, "who")
    if fact.frame == "spatial" and slot in ("agent", "partner"):
        asked = "what"
    if fact.frame == "count" and slot == "theme":
        asked = f"how many {plural(str(fact.theme))}"
    told = clause(fact, any_form(rng, fact) if form is None else form)
    if told.subject.slot == slot:
        return _join(asked, told.finite, _tail(told.rest), "?")
    gap = [chunk for chunk in told.rest if chunk.slot == slot]
    left = tuple(Chunk(chunk.slot, "", chunk.preposition) if chunk in gap else chunk for chunk in told.rest)
    return _join(asked, told.auxiliary, told.subject.text(), told.main, _tail(left), "?")
