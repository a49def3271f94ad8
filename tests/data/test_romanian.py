"""Romanian forms against rules written down here a second time: articles, case, agreement, verbs, pronouns."""

from __future__ import annotations

import random
import re

import pytest

from spikelm.data.microworld import romanian as ro
from spikelm.data.microworld.bilingual import PATTERNS, bilingual_pair, doubled
from spikelm.data.microworld.clauses import romanian_verb
from spikelm.data.microworld.phrases import definite, demonstrative, indefinite, named, owned, owned_by, together
from spikelm.data.microworld.romanian_verbs import ACCUSATIVE, DATIVE, HE, SELF, THEY, VERBS, WE, YOU, Verb

NOUNS = list(ro.NOUNS.values())
VOWELS = "aăâeiîou"


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.en)
def test_a_noun_follows_the_rules_of_its_gender(noun: ro.Noun) -> None:
    one, many = noun.one, noun.many
    if noun.gender == "f":
        if one.endswith("ă"):
            the_one = one[:-1] + "a"  # casă, casa
        elif one.endswith("ie"):
            the_one = one[:-1] + "a"  # femeie, femeia
        else:
            the_one = one + "a"  # carte, cartea
        # rochie, rochiei; else the plural with -i: fete, fetei; cărți, cărții
        oblique = one + "i" if one.endswith("ie") and one[-3] not in VOWELS else many + "i"
    else:
        the_one = one + ("le" if one.endswith("e") else "l" if one.endswith("u") else "ul")
        oblique = the_one.removesuffix("le").removesuffix("l") + "lui"
    the_many = many + ("i" if noun.gender == "m" else "le")
    oblique_many = many + "lor"
    assert (noun.the_one, noun.the_many) == (the_one, the_many)
    assert (noun.oblique, noun.oblique_many) == (oblique, oblique_many)
    ends = {"m": ("i",), "f": ("e", "i"), "n": ("e", "uri", "ă")}[noun.gender]
    assert many.endswith(ends)
    assert noun.feminine(False) == (noun.gender == "f")
    assert noun.feminine(True) == (noun.gender != "m")


ENDINGS = {  # masculine -> feminine, plurals, where letters before the ending stay or change by a rule of their own
    "mare": "mare mari mari",
    "verde": "verde verzi verzi",
    "nou": "nouă noi noi",
    "greu": "grea grei grele",
    "vechi": "veche vechi vechi",
    "roșu": "roșie roșii roșii",
    "negru": "neagră negri negre",
    "albastru": "albastră albaștri albastre",
    "mic": "mică mici mici",
    "tânăr": "tânără tineri tinere",
    "frumos": "frumoasă frumoși frumoase",
    "proaspăt": "proaspătă proaspeți proaspete",
    "trist": "tristă triști triste",
    "flămând": "flămândă flămânzi flămânde",
}


@pytest.mark.parametrize("forms", ro.ADJECTIVES.values(), ids=lambda forms: forms[0])
def test_an_adjective_is_regular_or_on_the_list(forms: tuple[str, str, str, str]) -> None:
    base = forms[0]
    if base in ENDINGS:
        assert list(forms[1:]) == ENDINGS[base].split()
    else:
        plural = base[:-1] + "ți" if base.endswith("t") else base + "i"
        assert forms == (base, base + "ă", plural, base + "e")


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.en)
def test_a_verb_follows_its_conjugation(verb: Verb) -> None:
    eu, tu, el, noi, ei = verb.present
    infinitive = verb.infinitive
    if verb.en in ("have", "want", "give"):
        return  # irregular: checked by name below
    assert tu.endswith("i")
    if infinitive.endswith("a") and not infinitive.endswith("ea"):
        assert ei == el, "the first conjugation has one third person"
        assert noi == infinitive[:-1] + "ăm"
        assert verb.participle == infinitive + "t"
        assert el.endswith("ă")
        assert verb.subjunctive.endswith("e"), "ă becomes e"
    else:
        assert ei == eu, "the other conjugations have eu and ei alike"
        assert noi == infinitive.removesuffix("a") + "m"
        assert el.endswith("e")
        assert verb.subjunctive.endswith("ă") or verb.en == "write"
    if infinitive.endswith("i"):
        assert verb.participle == infinitive + "t"


def test_irregular_verbs_are_as_they_are() -> None:
    assert VERBS["have"].present == ("am", "ai", "are", "avem", "au")
    assert VERBS["want"].present == ("vreau", "vrei", "vrea", "vrem", "vor")
    assert VERBS["give"].present == ("dau", "dai", "dă", "dăm", "dau")
    assert [VERBS[name].subjunctive for name in ("have", "want", "give")] == ["aibă", "vrea", "dea"]


def test_phrases_agree() -> None:
    girl, egg, house, sister = (ro.NOUNS[name] for name in ("girl", "egg", "house", "sister"))
    assert definite(girl, adjective="tall")[1:4] == ("fata înaltă", "fata înaltă", "fetei înalte")
    assert definite(house)[1:4] == ("casa", "casă", "casei"), "a preposition takes the article"
    assert indefinite(egg, "big").ro == "un ou mare"
    assert demonstrative(egg, plural=True).ro == "aceste ouă"
    assert owned(sister, "my")[1:4] == ("sora mea", "sora mea", "surorii mele")
    assert owned_by(house, named("Ion"), adjective="new").ro == "casa nouă a lui Ion"
    assert owned_by(egg, named("Maria"), plural=True, adjective="big").ro == "ouăle mari ale Mariei"
    assert owned_by(ro.NOUNS["dog"], definite(girl)).ro == "câinele fetei"
    both = together(named("Ana"), named("Ion"))
    assert (both.oblique, both.feminine, both.person) == ("Anei și lui Ion", False, THEY)


def test_verbs_carry_their_pronouns() -> None:
    see, play, give = VERBS["see"], VERBS["play"], VERBS["give"]
    her, him, them = ACCUSATIVE["her"], ACCUSATIVE["him"], ACCUSATIVE["them"]
    assert romanian_verb(see, HE, "past", clitic=her) == ("a văzut-o", "")
    assert romanian_verb(see, SELF, "past", True, him) == ("nu l-am văzut", "")
    assert romanian_verb(see, THEY, "future", clitic=her) == ("o vor vedea", "")
    assert romanian_verb(see, YOU, "simple", clitic=them) == ("îi vezi", "")
    assert romanian_verb(see, HE, "wish", clitic=her) == ("vrea", "să o vadă")
    assert romanian_verb(play, HE, "past") == ("s-a jucat", "")
    assert romanian_verb(play, WE, "wish", True) == ("nu vrem", "să ne jucăm")
    assert romanian_verb(give, SELF, "past", clitic=DATIVE["them"]) == ("le-am dat", "")
    assert doubled(definite(ro.NOUNS["girl"], plural=True)).joined == "le-"


def test_every_sentence_is_clean_and_has_one_translation() -> None:
    rng = random.Random(3)
    known: dict[str, str] = {}
    for _ in range(4000):
        en, told = bilingual_pair(rng)
        assert known.setdefault(en, told) == told
        assert re.fullmatch(r"[A-Z][A-Za-z ']+[.?]", en), en
        assert re.fullmatch(r"[A-ZÎȘȚ][A-Za-zăâîșț -]+[.?]", told), told
        assert "  " not in en + told
        assert en[-1] == told[-1]
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", en), en
        assert not re.search(r"[şţŞŢ]", told), "a cedilla is not a comma"


def test_patterns_say_what_they_are_for() -> None:
    rng = random.Random(5)
    found = {pattern.__name__: [pattern(rng) for _ in range(300)] for pattern in PATTERNS}
    for en, told in found["liking"]:
        plural = told.split(" plac ")
        assert (len(plural) == 2) != (" place " in told), (en, told)
    for en, told in found["meeting"]:
        if " pe " in told:
            pronoun = re.search(r"\b(îl|o|îi|le) |\b(l|i|le)-|-o\b", told, re.IGNORECASE)
            assert pronoun, (en, told)
    for en, told in found["giving"]:
        assert re.search(r"\b(îi|le) |\b(i|le)-", told, re.IGNORECASE), (en, told)
    for en, told in found["existing"]:
        assert en.startswith("There ")
        assert re.search(r" (este|sunt|era|erau) ", told), told
