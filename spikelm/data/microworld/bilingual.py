"""Sentences in English and Romanian from one grammar: tenses, negation, questions, doubled pronouns, case."""

from __future__ import annotations

import random
from collections.abc import Callable

from spikelm.data.microworld.clauses import TENSES, Clause, english_verb, romanian_verb, sentence, told
from spikelm.data.microworld.phrases import (
    SUBJECTS,
    Phrase,
    adjective_for,
    counted,
    definite,
    demonstrative,
    generic,
    indefinite,
    nouns_of,
    owned,
    person,
    thing,
    together,
)
from spikelm.data.microworld.romanian import ADJECTIVES, COUNTS, NOUNS, OWNERS, PEOPLE, PREDICATES, agreeing
from spikelm.data.microworld.romanian_verbs import (
    ACCUSATIVE,
    BE,
    DATIVE,
    DOING,
    FEMININE,
    GIFTS,
    GIVING,
    HE,
    MEETING,
    OBJECTS,
    SELF,
    THEM_FEMININE,
    THEY,
    VERBS,
    WE,
    YOU,
    Clitic,
    Verb,
)

PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "in": ("în", ("garden", "kitchen", "room", "forest", "park", "house")),
    "on": ("pe", ("table", "chair", "bridge", "street", "bed")),
    "under": ("sub", ("table", "tree", "bed", "bridge")),
    "near": ("lângă", ("house", "school", "church", "lake", "tree", "window", "door")),
    "behind": ("în spatele", ("house", "school", "church", "tree", "door", "wall")),
    "in front of": ("în fața", ("house", "school", "church", "window")),
}
WITH_GENITIVE: tuple[str, ...] = ("behind", "in front of")


def _tense(rng: random.Random, verb: Verb) -> str:
    # `read` is present and past alike, but for he and she.
    lacking = {"read": ("simple",), "want": ("continuous", "wish"), "have": ("continuous",), "see": ("continuous",)}
    lacking |= {"lose": ("wish",), "break": ("wish",)}
    return rng.choice([tense for tense in TENSES if tense not in lacking.get(verb.en, ())])


def _subject(rng: random.Random, *kinds: str) -> Phrase:
    roll = rng.random()
    if roll < 0.3:
        return rng.choice(SUBJECTS)
    if roll < 0.4:
        first, second = person(rng, "child", "adult"), person(rng, "child", "adult")
        # "the tall girl and the girl" is one word too many
        return first if first.en.split()[-1] == second.en.split()[-1] else together(first, second)
    return person(rng, *kinds)


def _another(rng: random.Random, subject: Phrase) -> Phrase:
    """Somebody who is not part of the subject."""
    while (found := person(rng, "child", "kin", "adult")).en in subject.en:
        pass
    return found


def doubled(object: Phrase) -> Clitic:
    """The pronoun that goes with a person as direct object."""
    if object.plural:
        return THEM_FEMININE if object.feminine else ACCUSATIVE["them"]
    return FEMININE if object.feminine else ACCUSATIVE["him"]


def place(rng: random.Random) -> tuple[str, str]:
    """Where: most prepositions take the article from a noun that stands alone, two ask for the genitive."""
    en = rng.choice(tuple(PLACES))
    ro, names = PLACES[en]
    noun = NOUNS[rng.choice(names)]
    adjective = adjective_for(rng, noun, 0.3) if noun.kind == "place" else ""
    where = definite(noun, False, adjective)
    return f"{en} {where.en}", f"{ro} {where.oblique if en in WITH_GENITIVE else where.bare}"


def acting(rng: random.Random) -> tuple[str, str]:
    """Somebody does something to a thing."""
    verb = VERBS[rng.choice(tuple(OBJECTS))]
    object = thing(rng, *OBJECTS[verb.en])
    subject = _subject(rng, "child", "kin", "adult")
    lasting = verb.en in ("have", "want")  # with no hour of their own
    return told(rng, Clause(subject, verb, _tense(rng, verb), (object.en, object.ro)), 0.0 if lasting else 0.4)


def meeting(rng: random.Random) -> tuple[str, str]:
    """Somebody meets a person: `pe`, and a pronoun that doubles the object or stands for it."""
    verb, subject = VERBS[rng.choice(MEETING)], _subject(rng, "child", "kin", "adult")
    tense = _tense(rng, verb)
    if rng.random() < 0.4:
        own = {SELF: ("me", "us"), WE: ("me", "us"), YOU: ("you",)}.get(subject.person, ())
        pronoun = rng.choice([word for word in ACCUSATIVE if word not in own])
        return told(rng, Clause(subject, verb, tense, (f"{verb.particle} {pronoun}".strip(), ""), ACCUSATIVE[pronoun]))
    object = _another(rng, subject)
    whom = f"{verb.particle} {object.en}".strip()
    return told(rng, Clause(subject, verb, tense, (whom, f"pe {object.bare}"), doubled(object)))


def giving(rng: random.Random) -> tuple[str, str]:
    """Somebody gives a thing to a person: a dative, doubled by its pronoun."""
    verb, subject = VERBS[rng.choice(GIVING)], _subject(rng, "child", "kin", "adult")
    noun = rng.choice(nouns_of(*GIFTS))
    some = indefinite(noun, adjective_for(rng, noun, 0.3)), counted(noun, rng.choice(tuple(COUNTS)))
    gift = rng.choice((*some, definite(noun)))
    taker = _another(rng, subject)
    clitic = DATIVE["them" if taker.plural else "him"]
    objects = (f"{taker.en} {gift.en}", f"{taker.oblique} {gift.ro}")
    if rng.random() < 0.5:
        objects = (f"{gift.en} to {taker.en}", f"{gift.ro} {taker.oblique}")
    return told(rng, Clause(subject, verb, _tense(rng, verb), objects, clitic), time_share=0.2)


def thanking(rng: random.Random) -> tuple[str, str]:
    """Thanks are given: the English object is a dative."""
    verb, subject = VERBS["thank"], _subject(rng, "child", "kin", "adult")
    taker = _another(rng, subject)
    clitic = DATIVE["them" if taker.plural else "him"]
    return told(rng, Clause(subject, verb, _tense(rng, verb), (taker.en, taker.oblique), clitic))


def doing(rng: random.Random) -> tuple[str, str]:
    """Somebody sleeps, works or plays somewhere."""
    verb = VERBS[rng.choice(tuple(DOING))]
    subject = _subject(rng, *DOING[verb.en])
    where = place(rng) if rng.random() < 0.75 else ("", "")
    return told(rng, Clause(subject, verb, _tense(rng, verb), where))


def _be(subject: Phrase, tense: str) -> tuple[str, str]:
    english = {"present": ("is", "are"), "past": ("was", "were"), "future": ("will be", "will be")}[tense]
    return english[subject.plural], BE[tense][subject.person]


def being(rng: random.Random) -> tuple[str, str]:
    """What somebody or something is like: the adjective agrees."""
    noun = rng.choice(nouns_of(*PREDICATES))
    plural = rng.random() < 0.4
    adjective = rng.choice(PREDICATES[noun.kind])
    if rng.random() < 0.15:
        subject, adjective = rng.choice(SUBJECTS[3:]), rng.choice(PREDICATES["kin"])
    elif noun.kind in PEOPLE:
        subject = person(rng, noun.en)
        adjective = rng.choice(PREDICATES["kin"])
    elif rng.random() < 0.5:
        subject = definite(noun, plural)
    elif rng.random() < 0.5:
        subject = demonstrative(noun, plural, rng.random() < 0.4)
    else:
        subject = owned(noun, rng.choice(tuple(OWNERS)), plural)
    tense = rng.choice(("present", "past", "future"))
    en, ro = _be(subject, tense)
    ending = adjective.partition(" (")[0]
    form = agreeing(ADJECTIVES[adjective], subject.feminine, subject.plural)
    if rng.random() < 0.15 and tense != "future":
        return sentence(en, subject.en, ending, end="?"), sentence(ro, subject.ro, form, end="?")
    if rng.random() < 0.2:
        en, ro = en.replace("will be", "will not be") if tense == "future" else f"{en} not", f"nu {ro}"
    return sentence(subject.en, en, ending), sentence(subject.ro, ro, form)


def existing(rng: random.Random) -> tuple[str, str]:
    """There is something somewhere: the place comes first in Romanian."""
    noun = rng.choice(nouns_of("animal", "food", "clothes", "child"))
    adjective = adjective_for(rng, noun, 0.4)
    count = rng.choice((*COUNTS, "many"))
    what = indefinite(noun, adjective) if rng.random() < 0.5 else counted(noun, count, adjective)
    en, ro = _be(what, rng.choice(("present", "past")))
    where = place(rng)
    return sentence("there", en, what.en, where[0]), sentence(where[1], ro, what.ro)


def liking(rng: random.Random) -> tuple[str, str]:
    """What is liked is the Romanian subject; who likes it is a dative."""
    noun = rng.choice(nouns_of("animal", "food", "clothes", "book", "flower", "painting", "garden", "house", "car"))
    plural = rng.random() < 0.5
    liked = generic(noun) if rng.random() < 0.4 else definite(noun, plural, adjective_for(rng, noun, 0.3))
    subject = _subject(rng, "child", "kin", "adult")
    who = {SELF: "me", YOU: "you", WE: "us", THEY: "them"}.get(subject.person, "him")
    negated = rng.random() < 0.25
    verb = "likes" if subject.person == HE else "like"
    if negated:
        verb = f"{'does' if subject.person == HE else 'do'} not like"
    ro = f"{'nu ' * negated}{DATIVE[who].alone} {'plac' if liked.plural else 'place'}"
    return sentence(subject.en, verb, liked.en), sentence(subject.oblique, ro, liked.ro)


def relating(rng: random.Random) -> tuple[str, str]:
    """A relative clause between a noun and what is said of it."""
    verb = VERBS[rng.choice(("sleep", "run", "sing", "cry", "laugh", "dance"))]
    noun = rng.choice(nouns_of(*(kind for kind in DOING[verb.en] if kind != "kin")))
    plural = rng.random() < 0.4
    subject = definite(noun, plural)
    en, ro = _be(subject, "present")
    where = place(rng) if rng.random() < 0.5 else ("", "")
    adjective = rng.choice(PREDICATES[noun.kind])
    does = " ".join(english_verb(verb, subject, "continuous"))
    form = agreeing(ADJECTIVES[adjective], subject.feminine, plural)
    link = "that" if noun.kind == "animal" else "who"
    left = sentence(subject.en, link, does, where[0], en, adjective.partition(" (")[0])
    acts = romanian_verb(verb, subject.person, "continuous")[0]
    return left, sentence(subject.ro, "care", acts, where[1], ro, form)


PATTERNS: tuple[Callable[[random.Random], tuple[str, str]], ...] = (
    acting,
    meeting,
    giving,
    thanking,
    doing,
    being,
    existing,
    liking,
    relating,
)
WEIGHTS: tuple[int, ...] = (6, 5, 4, 1, 4, 4, 2, 3, 2)


def bilingual_pair(rng: random.Random) -> tuple[str, str]:
    """An English sentence of 4 to 12 words and its translation."""
    while True:
        (pattern,) = rng.choices(PATTERNS, WEIGHTS)
        en, ro = pattern(rng)
        if 4 <= len(en.split()) <= 12 and len(ro.split()) <= 13:
            return en, ro
