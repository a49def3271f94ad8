"""Noun phrases in English and Romanian at once: articles, agreement, owners, and the forms other words ask for."""

from __future__ import annotations

import random
from typing import NamedTuple

from spikelm.data.microworld.romanian import (
    ADJECTIVES,
    ATTRIBUTES,
    COUNTS,
    GENITIVE_ARTICLE,
    MANY,
    MEN,
    NOUNS,
    OWNERS,
    PEOPLE,
    THAT,
    THIS,
    WOMEN,
    Noun,
    agreeing,
)
from spikelm.data.microworld.romanian_verbs import HE, SELF, THEY, WE, YOU


class Phrase(NamedTuple):
    """A noun phrase or pronoun and all that a sentence needs to know of it."""

    en: str
    ro: str  # as subject or object; empty for a pronoun that Romanian leaves out
    bare: str  # behind a preposition, which takes the article from a noun that stands alone
    oblique: str = ""  # genitive-dative; empty: not used
    person: int = HE
    feminine: bool = False
    marked: bool = False  # as an object it takes `pe` and is doubled by a pronoun

    @property
    def plural(self) -> bool:
        return self.person in (WE, THEY)


SUBJECTS: tuple[Phrase, ...] = (
    Phrase("I", "", "", person=SELF),
    Phrase("you", "", "", person=YOU),
    Phrase("we", "", "", person=WE),
    Phrase("he", "el", "el", "lui"),
    Phrase("she", "ea", "ea", "ei", feminine=True),
    Phrase("they", "ei", "ei", "lor", person=THEY),
)


def _article(en: str) -> str:
    return "an" if en[0] in "aeiou" else "a"


def _english(adjective: str) -> str:
    return adjective.partition(" (")[0]


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)


def _made(noun: Noun, plural: bool, en: str, ro: str, bare: str = "", oblique: str = "", marked: bool = True) -> Phrase:
    person = THEY if plural else HE
    marked = marked and noun.kind in PEOPLE
    return Phrase(en, ro, bare or ro, oblique, person, noun.feminine(plural), marked)


def definite(noun: Noun, plural: bool = False, adjective: str = "") -> Phrase:
    """The noun with its article: at the end of the Romanian one, whatever follows it."""
    feminine = noun.feminine(plural)
    forms = ADJECTIVES[adjective] if adjective else ("", "", "", "")
    told = agreeing(forms, feminine, plural)
    # A feminine adjective of a genitive-dative singular has the form of the plural.
    behind = forms[3] if feminine else told
    base = noun.the_many if plural else noun.the_one
    oblique = noun.oblique_many if plural else noun.oblique
    alone = noun.many if plural else noun.one
    return _made(
        noun,
        plural,
        _joined("the", _english(adjective), noun.en_plural if plural else noun.en),
        _joined(base, told),
        bare="" if adjective else alone,
        oblique=_joined(oblique, behind),
    )


def indefinite(noun: Noun, adjective: str = "") -> Phrase:
    """One of its kind: un or o."""
    feminine = noun.feminine(False)
    told = _joined(_english(adjective), noun.en)
    ro = _joined("o" if feminine else "un", noun.one, _agreed(adjective, feminine, False))
    return _made(noun, False, f"{_article(told)} {told}", ro, marked=False)


def counted(noun: Noun, count: str, adjective: str = "") -> Phrase:
    """Two to five of them, or many."""
    feminine = noun.feminine(True)
    number = COUNTS[count][feminine] if count in COUNTS else agreeing(MANY, feminine, True)
    en = _joined(count, _english(adjective), noun.en_plural)
    return _made(noun, True, en, _joined(number, noun.many, _agreed(adjective, feminine, True)), marked=False)


def demonstrative(noun: Noun, plural: bool = False, far: bool = False, adjective: str = "") -> Phrase:
    """This or that one, these or those."""
    feminine = noun.feminine(plural)
    word = (("this", "these"), ("that", "those"))[far][plural]
    en = _joined(word, _english(adjective), noun.en_plural if plural else noun.en)
    pointing = agreeing(THAT if far else THIS, feminine, plural)
    ro = _joined(pointing, noun.many if plural else noun.one, _agreed(adjective, feminine, plural))
    return _made(noun, plural, en, ro)


def owned(noun: Noun, owner: str, plural: bool = False) -> Phrase:
    """My, your, his, her, our or their one: the owner stands behind the noun and agrees with it."""
    feminine = noun.feminine(plural)
    forms = OWNERS[owner]
    told = agreeing(forms, feminine, plural)
    base, oblique = (noun.the_many, noun.oblique_many) if plural else (noun.the_one, noun.oblique)
    return _made(
        noun,
        plural,
        f"{owner} {noun.en_plural if plural else noun.en}",
        f"{base} {told}",
        oblique=f"{oblique} {forms[3] if feminine else told}",
    )


def owned_by(noun: Noun, owner: Phrase, plural: bool = False, adjective: str = "") -> Phrase:
    """Somebody's: a genitive, with an article of its own when an adjective comes between."""
    feminine = noun.feminine(plural)
    possessor = f"{owner.en}'" if owner.plural and owner.en.endswith("s") else f"{owner.en}'s"
    en = _joined(possessor, _english(adjective), noun.en_plural if plural else noun.en)
    base, oblique = (noun.the_many, noun.oblique_many) if plural else (noun.the_one, noun.oblique)
    if adjective:
        link = agreeing(GENITIVE_ARTICLE, feminine, plural)
        return _made(noun, plural, en, _joined(base, _agreed(adjective, feminine, plural), link, owner.oblique))
    return _made(noun, plural, en, f"{base} {owner.oblique}", oblique=f"{oblique} {owner.oblique}")


def generic(noun: Noun) -> Phrase:
    """All of a kind: no article in English, the definite plural in Romanian."""
    return _made(noun, True, noun.en_plural, noun.the_many)


def named(name: str) -> Phrase:
    """A person by name: women's names are declined, men's take `lui`."""
    feminine = name in WOMEN
    return Phrase(name, name, name, WOMEN.get(name, f"lui {name}"), feminine=feminine, marked=True)


def together(first: Phrase, second: Phrase) -> Phrase:
    """Two people; masculine unless both are women."""
    en, ro = f"{first.en} and {second.en}", f"{first.ro} și {second.ro}"
    oblique = f"{first.oblique} și {second.oblique}"
    return Phrase(en, ro, ro, oblique, THEY, first.feminine and second.feminine, marked=True)


def _agreed(adjective: str, feminine: bool, plural: bool) -> str:
    return agreeing(ADJECTIVES[adjective], feminine, plural) if adjective else ""


def nouns_of(*kinds: str) -> list[Noun]:
    """The nouns of these kinds; a word that is no kind is a noun itself."""
    wanted = set(kinds)
    return [noun for noun in NOUNS.values() if noun.kind in wanted or noun.en in wanted]


def adjective_for(rng: random.Random, noun: Noun, share: float) -> str:
    """An adjective that may be said of the noun, or none."""
    return rng.choice(ATTRIBUTES[noun.kind]) if rng.random() < share else ""


def any_name(rng: random.Random) -> Phrase:
    """One of the people with names."""
    return named(rng.choice((*MEN, *WOMEN)))


def person(rng: random.Random, *kinds: str) -> Phrase:
    """Somebody in particular, as subject, object or receiver."""
    roll = rng.random()
    if roll < 0.25 and not set(kinds).isdisjoint(PEOPLE):
        return any_name(rng)
    noun = rng.choice(nouns_of(*kinds))
    plural = rng.random() < 0.35
    if noun.kind == "kin":
        if roll < 0.7:
            return owned(noun, rng.choice(tuple(OWNERS)), plural and noun.en != "mother")
        return owned_by(noun, any_name(rng), plural and noun.en != "mother")
    return definite(noun, plural, adjective_for(rng, noun, 0.35))


def thing(rng: random.Random, *kinds: str) -> Phrase:
    """Something: definite, counted, pointed at or owned."""
    noun = rng.choice(nouns_of(*kinds))
    roll, plural = rng.random(), rng.random() < 0.4
    if roll < 0.3:
        return definite(noun, plural, adjective_for(rng, noun, 0.4))
    if roll < 0.5:
        return indefinite(noun, adjective_for(rng, noun, 0.5))
    if roll < 0.65:
        return counted(noun, rng.choice((*COUNTS, "many")), adjective_for(rng, noun, 0.4))
    if roll < 0.78:
        return demonstrative(noun, plural, rng.random() < 0.4, adjective_for(rng, noun, 0.2))
    if roll < 0.88:
        return owned(noun, rng.choice(tuple(OWNERS)), plural)
    owner = any_name(rng) if rng.random() < 0.5 else definite(rng.choice(nouns_of("child", "adult")), False)
    return owned_by(noun, owner, plural, adjective_for(rng, noun, 0.4))
