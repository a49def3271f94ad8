"""Summarisation in several sentences: the week of a town in three parts, and a highlight of each."""

from __future__ import annotations

import random
from collections.abc import Callable

from spikelm.data.microworld.events import EVENTS
from spikelm.data.microworld.news import TOWNS
from spikelm.data.microworld.stories import VOTES, Story, cast, happening, introduced

AMOUNTS: tuple[str, ...] = tuple(reversed(VOTES))  # ascending


def _two(rng: random.Random) -> tuple[str, str, bool]:
    """Two different amounts, and whether the second is the larger."""
    first, second = rng.sample(range(len(AMOUNTS)), 2)
    return AMOUNTS[first], AMOUNTS[second], second > first


def person_part(rng: random.Random) -> Story:
    """What somebody did; the other one is not introduced, so no highlight may need that trade."""
    hero, other = cast(rng)
    events = [event for event in EVENTS.values() if not any("{role2}" in summary for _, summary in event.endings)]
    event = happening(rng, rng.choice(events), hero, other)
    return Story([introduced(rng, hero), *event.sentences], event.summary.replace(f" from {hero.town}", ""))


def visitors_part(rng: random.Random) -> Story:
    """How many came, against last year."""
    what = rng.choice(("flower show", "book fair", "boat race", "night concert", "cheese market"))
    before, now, more = _two(rng)
    return Story(
        [
            rng.choice((f"The {what} was held for the third time.", f"On Saturday the {what} opened its gates.")),
            f"A year ago {before} guests had come; this time the tickets of {now} were counted.",
            rng.choice(("Tea and cake were free.", "A brass band played until the evening.")),
        ],
        f"The {what} drew {'more' if more else 'fewer'} visitors than last year.",
    )


def council_part(rng: random.Random) -> Story:
    """A vote, and what it decides."""
    plan = rng.choice(("a new school", "a swimming pool", "a car park", "a tram line", "a sports hall"))
    no, yes, passed = _two(rng)
    return Story(
        [
            rng.choice((f"The council also talked about {plan}.", f"Plans for {plan} were on the table as well.")),
            f"After a long evening {yes} hands went up for it and {no} against it.",
            rng.choice(("The next meeting is in a month.", "Some visitors left before the end.")),
        ],
        f"The council has {'approved' if passed else 'rejected'} plans for {plan}.",
    )


def price_part(rng: random.Random) -> Story:
    """What something cost and costs."""
    what = rng.choice(("bus tickets", "museum tickets", "school meals", "garden plots", "library cards"))
    before, now, dearer = _two(rng)
    return Story(
        [
            rng.choice((f"There is news for those who buy {what}.", f"Many letters to the editor were about {what}.")),
            f"Until now {before} coins had to be paid; from Monday it will be {now}.",
            rng.choice(("Children still pay half.", "The last change was long ago.")),
        ],
        f"The price of {what} will {'rise' if dearer else 'fall'} on Monday.",
    )


def match_part(rng: random.Random) -> Story:
    """A game between two towns."""
    home, away = rng.sample(TOWNS, 2)
    sport = rng.choice(("handball", "basketball", "rugby", "volleyball"))
    ours, theirs, lost = _two(rng)
    winner, loser = (away, home) if lost else (home, away)
    return Story(
        [
            rng.choice((f"In {sport}, {home} met {away}.", f"Fans of {sport} saw {home} play {away}.")),
            f"When the whistle blew, {home} had {ours} points and {away} had {theirs}.",
            rng.choice(("The hall was full to the last seat.", "Both teams sang on the way home.")),
        ],
        f"{winner} have beaten {loser} at {sport}.",
    )


PARTS: tuple[Callable[[random.Random], Story], ...] = (visitors_part, council_part, price_part, match_part)


def digest(rng: random.Random) -> tuple[str, str]:
    """A document of about 110 words, and three highlights in its order, one per line."""
    parts = [person_part(rng), *(part(rng) for part in rng.sample(PARTS, 2))]
    rng.shuffle(parts)
    town = rng.choice(TOWNS)
    opening = rng.choice((f"This was the week in {town}.", f"Here is what moved {town} in the last days."))
    document = " ".join([opening, *(sentence for part in parts for sentence in part.sentences)])
    return document, "\n".join(part.summary for part in parts)
