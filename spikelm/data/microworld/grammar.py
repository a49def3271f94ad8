"""CoLA: thirteen rules of grammar, each as a good sentence and a near copy that breaks the rule.

Most rules pair two choices (number of the head x number of the verb, auxiliary x verb form, ...) so that
every word and nearly every pair of neighbours is as frequent in good sentences as in bad ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from spikelm.data.microworld.lexicon import COLOURS, NUMBERS, VERBS, Genre, plural
from spikelm.data.microworld.wording import statement
from spikelm.data.microworld.world import sample_fact

Pair = tuple[str, str]


def _noun(noun: str, many: bool) -> str:
    return plural(noun) if many else noun


def _name_and_things(rng: random.Random, genre: Genre) -> tuple[str, str, str]:
    first, second = rng.sample(genre.things, 2)
    return rng.choice(genre.people), first, second


def _either_way(rng: random.Random, right: str, wrong: str, other_right: str, other_wrong: str) -> Pair:
    return (right, wrong) if rng.random() < 0.5 else (other_right, other_wrong)


def agreement(rng: random.Random, genre: Genre) -> Pair:
    """The verb agrees with its head noun, not with the noun next to it."""
    name, head, near = _name_and_things(rng, genre)
    many, tense = rng.random() < 0.5, rng.randrange(2)
    near_many = many if rng.random() < 0.3 else not many
    link = rng.choice(("near", "behind", "above", "below"))
    middle = f"{link} the {_noun(near, near_many)}"
    if rng.random() < 0.4:
        middle = f"that {name} {rng.choice(('liked', 'saw', 'found'))}"
    forms = (("is", "are"), ("was", "were"))[tense]
    start = f"the {_noun(head, many)} {middle}"
    end = rng.choice(COLOURS) if rng.random() < 0.6 else rng.choice(genre.places)
    return f"{start} {forms[many]} {end} .", f"{start} {forms[not many]} {end} ."


def reflexive(rng: random.Random, genre: Genre) -> Pair:
    """A reflexive agrees with the subject, not with another person."""
    his = rng.random() < 0.5
    own, other = (genre.men, genre.women) if his else (genre.women, genre.men)
    verb = VERBS[rng.choice(genre.verbs["social"])].past
    end = rng.choice(genre.places)
    start = rng.choice(own)
    if rng.random() < 0.5:
        start = f"{start} , not {rng.choice(other)} ,"
    right, wrong = ("himself", "herself") if his else ("herself", "himself")
    return f"{start} {verb} {right} {end} .", f"{start} {verb} {wrong} {end} ."


def auxiliary(rng: random.Random, genre: Genre) -> Pair:
    """The auxiliary decides the form of the verb behind the subject."""
    name, thing, _ = _name_and_things(rng, genre)
    verb = VERBS[rng.choice(genre.verbs["handle"])]
    forms = {"did": verb.base, "has": verb.participle, "is": verb.ing}
    chosen, wrong = rng.sample(tuple(forms), 2)
    end = f"the {rng.choice(COLOURS)} {thing} ?"
    return f"{chosen} {name} {forms[chosen]} {end}", f"{chosen} {name} {forms[wrong]} {end}"


def gap(rng: random.Random, genre: Genre) -> Pair:
    """A verb has its object once: in place, or as the head of the relative clause."""
    _, thing, extra = _name_and_things(rng, genre)
    giver, taker = rng.sample(genre.people, 2)
    verb = VERBS[rng.choice(genre.verbs["transfer"])].past
    colour = rng.choice(COLOURS)
    short, full = f"{giver} {verb} to {taker}", f"{giver} {verb} the {rng.choice(COLOURS)} {extra} to {taker}"
    relative = f"the {thing} that {{}} was {colour} ."
    return _either_way(rng, f"{full} .", f"{short} .", relative.format(short), relative.format(full))


def inversion(rng: random.Random, genre: Genre) -> Pair:
    """A question inverts its subject; an embedded question does not."""
    _, thing, _ = _name_and_things(rng, genre)
    knower, name = rng.sample(genre.people, 2)
    verb = VERBS[rng.choice(genre.verbs["handle"])]
    asked = rng.choice(("where", "when", "why"))
    inverted = f"{asked} did {name} {verb.base} the {thing}"
    straight = f"{asked} {name} {verb.past} the {thing}"
    knows = f"{knower} {rng.choice(('knew', 'asked', 'forgot'))} {{}} ."
    return _either_way(rng, f"{inverted} ?", f"{straight} ?", knows.format(straight), knows.format(inverted))


def polarity(rng: random.Random, genre: Genre) -> Pair:
    """The word anything needs a negative subject before it."""
    name = rng.choice(genre.people)
    verb, place = VERBS[rng.choice(genre.verbs["handle"])].past, rng.choice(genre.places)
    if rng.random() < 0.3:
        first, second = rng.sample((name, "somebody"), 2)
        good = f"{first} {verb} something for {second} {place} ."
        return good, good.replace("something", "anything")
    return f"nobody {verb} anything for {name} {place} .", f"{name} {verb} anything for nobody {place} ."


def tense(rng: random.Random, genre: Genre) -> Pair:
    """The time of the verb is the time of the adverb."""
    name, thing, _ = _name_and_things(rng, genre)
    verb = VERBS[rng.choice(genre.verbs["handle"])]
    future, past = rng.choice((("tomorrow", "yesterday"), ("next week", "last week")))
    later, earlier = f"{name} will {verb.base} the {thing}", f"{name} {verb.past} the {thing}"
    return _either_way(rng, f"{later} {future} .", f"{later} {past} .", f"{earlier} {past} .", f"{earlier} {future} .")


def number(rng: random.Random, genre: Genre) -> Pair:
    """A counted noun has the number of its numeral."""
    name, thing, _ = _name_and_things(rng, genre)
    verb, colour = VERBS[rng.choice(genre.verbs["count"])].past, rng.choice(COLOURS)
    many = rng.random() < 0.5
    start = f"{name} {verb} {rng.choice(NUMBERS) if many else 'one'} {colour}"
    end = rng.choice(genre.places)
    return f"{start} {_noun(thing, many)} {end} .", f"{start} {_noun(thing, not many)} {end} ."


def coordination(rng: random.Random, genre: Genre) -> Pair:
    """Both goes with and, either goes with or."""
    first, second, third = rng.sample(genre.people, 3)
    verb = VERBS[rng.choice(genre.verbs["social"])].past
    opener, link = rng.choice((("both", "and"), ("either", "or")))
    sentence = f"{opener} {first} {{}} {second} {verb} {third} ."
    return sentence.format(link), sentence.format("or" if link == "and" else "and")


def passive(rng: random.Random, genre: Genre) -> Pair:
    """A passive has its auxiliary and its by; an active has neither."""
    first, second = rng.sample(genre.people, 2)
    verb, place = VERBS[rng.choice(genre.verbs["social"])].participle, rng.choice(genre.places)
    return _either_way(
        rng,
        f"{first} {verb} {second} {place} .",
        f"{first} was {verb} {second} {place} .",
        f"{first} was {verb} by {second} {place} .",
        f"{first} {verb} by {second} {place} .",
    )


def order(rng: random.Random, genre: Genre) -> Pair:
    """The verb stands behind its subject, not behind its object."""
    _, thing, _ = _name_and_things(rng, genre)
    giver, taker = rng.sample(genre.people, 2)
    verb = VERBS[rng.choice(genre.verbs["transfer"])].past
    if rng.random() < 0.5:
        return f"{giver} {verb} {taker} the {thing} .", f"{giver} {taker} {verb} the {thing} ."
    return f"{giver} {verb} the {thing} to {taker} .", f"{giver} the {thing} {verb} to {taker} ."


def scramble(rng: random.Random, genre: Genre) -> Pair:
    """Two neighbouring words of a plain statement trade places."""
    fact = sample_fact(rng, genre, rng.choice(("transfer", "handle", "count"))).only(("place",))
    words = statement(rng, fact, form=0).split()
    at = rng.randrange(2, len(words) - 1)
    swapped = [*words[:at], words[at + 1], words[at], *words[at + 2 :]]
    return f"{' '.join(words)} .", f"{' '.join(swapped)} ."


def determiner(rng: random.Random, genre: Genre) -> Pair:
    """A noun has one determiner: an article or an owner."""
    name, thing, other = _name_and_things(rng, genre)
    colour, link = rng.choice(COLOURS), rng.choice(("near", "behind", "above", "below"))
    end = f"was {link} the {other} ."
    return f"{name} 's {colour} {thing} {end}", f"{name} 's the {colour} {thing} {end}"


RULES: tuple[Callable[[random.Random, Genre], Pair], ...] = (
    agreement,
    reflexive,
    auxiliary,
    gap,
    inversion,
    polarity,
    tense,
    number,
    coordination,
    passive,
    order,
    scramble,
    determiner,
)
# The last rules are the ones that neighbouring words give away, so they are rare.
WEIGHTS: tuple[int, ...] = (8, 5, 5, 5, 5, 4, 4, 5, 4, 5, 1, 1, 1)


def minimal_pair(rng: random.Random, genre: Genre) -> Pair:
    """A grammatical sentence and its ungrammatical neighbour."""
    (rule,) = rng.choices(RULES, WEIGHTS)
    return rule(rng, genre)
