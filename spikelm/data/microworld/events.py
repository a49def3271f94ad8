"""The events of short news stories: each told in pieces, most with two ways to end."""

from __future__ import annotations

from typing import NamedTuple

Option = tuple[str, str]  # as the story tells it, as the summary says it


class Event(NamedTuple):
    """What happens: {hero} and {other} are people, other braces are slots; `told` are choices of wording."""

    slots: dict[str, tuple[Option, ...]]
    told: tuple[tuple[str, ...], ...]
    endings: tuple[tuple[tuple[str, ...], str], ...]  # the last piece, and the summary it leads to


def _same(*values: str) -> tuple[Option, ...]:
    return tuple((value, value) for value in values)


YEARS = _same("ten", "twelve", "twenty", "thirty", "forty")

EVENTS: dict[str, Event] = {
    "rescue": Event(
        slots={
            "animal": (
                ("a puppy", "a dog"),
                ("a kitten", "a cat"),
                ("a foal", "a horse"),
                ("a calf", "a cow"),
                ("a lamb", "a sheep"),
                ("a duckling", "a duck"),
            ),
            "water": _same("the river", "the canal", "a deep well", "the harbour", "a frozen lake"),
        },
        told=(
            ("Children shouted that {animal} had fallen into {water}.", "Suddenly {animal} slipped into {water}."),
            (
                "While {other} ran for a rope, {hero} jumped in.",
                "{other} called for help, but {hero} climbed down at once.",
            ),
        ),
        endings=(
            (
                ("Both came out wet but unharmed.", "Soon they were on dry ground without a scratch."),
                "A {role} from {town} has rescued {animal} from {water}.",
            ),
            (
                (
                    "The creature is well; {hero} left in an ambulance.",
                    "It came out unharmed, but {hero} broke an arm.",
                ),
                "A {role} from {town} was hurt while rescuing {animal} from {water}.",
            ),
        ),
    ),
    "theft": Event(
        slots={
            "goods": (
                ("gold rings", "jewellery"),
                ("silver necklaces", "jewellery"),
                ("violins", "instruments"),
                ("flutes", "instruments"),
                ("laptops", "computers"),
                ("oil portraits", "paintings"),
            ),
            "place": _same("museum", "hotel", "theatre", "church", "bank"),
        },
        told=(
            (
                "In {month} several {goods} vanished from the {place}.",
                "One night in {month} a thief took {goods} from the {place}.",
            ),
            (
                "The police spoke to {other} and let {him2} go; then they charged {hero}.",
                "{other} was only a witness; it was {hero} who had to stand trial.",
            ),
        ),
        endings=(
            (
                (
                    "The judge did not believe {his} story and sent {him} to prison.",
                    "After two days the court found {him} guilty.",
                ),
                "A {role} from {town} has been jailed for stealing {goods} from a {place}.",
            ),
            (
                (
                    "The judge believed {his} story and let {him} go home.",
                    "After two days the court said that there was no proof.",
                ),
                "A {role} from {town} has been cleared of stealing {goods} from a {place}.",
            ),
        ),
    ),
    "contest": Event(
        slots={
            "entry": (
                ("a cherry cake", "baking"),
                ("an apple tart", "baking"),
                ("a slow waltz", "dance"),
                ("a wild tango", "dance"),
                ("a giant pumpkin", "vegetable"),
                ("a huge cabbage", "vegetable"),
            ),
            "fair": _same("the spring fair", "the summer fair", "the harvest festival", "the winter market"),
        },
        told=(
            ("{number} people took part at {fair}.", "The judges at {fair} had seen {number} entries."),
            (
                "{other} had only come to watch, but {hero} took part with {entry}.",
                "{hero} came with {entry}, and {other} came to cheer.",
            ),
        ),
        endings=(
            (
                ("When the points were counted, nobody had more.", "The gold medal went home with {him}."),
                "A {role} from {town} has won a {entry} contest at {fair}.",
            ),
            (
                ("When the points were counted, nobody had fewer.", "{He} went home without a single point."),
                "A {role} from {town} came last in a {entry} contest at {fair}.",
            ),
        ),
    ),
    "journey": Event(
        slots={
            "way": (
                ("on foot", "walk"),
                ("by bicycle", "bike ride"),
                ("in a rowing boat", "boat trip"),
                ("by balloon", "flight"),
            ),
            "goal": _same(
                "the coast", "the capital", "the northern border", "the southern islands", "the old lighthouse"
            ),
        },
        told=(
            ("In {month} {hero} set out {way} for {goal}.", "{hero} left home in {month} to reach {goal} {way}."),
            ("{other} waved goodbye and kept the house key.", "{other} promised to feed the cat."),
        ),
        endings=(
            (
                (
                    "After {number} days there was no road left to travel.",
                    "After {number} days {he} sent a photograph from the end of the journey.",
                ),
                "A {role} from {town} has completed a {way} to {goal}.",
            ),
            (
                (
                    "After {number} days a storm made {him} turn round.",
                    "After {number} days {he} was back home with a fever.",
                ),
                "A {role} from {town} has given up a {way} to {goal}.",
            ),
        ),
    ),
    "find": Event(
        slots={
            "item": (
                ("a wedding ring", "ring"),
                ("a pocket watch", "watch"),
                ("a leather wallet", "wallet"),
                ("a silver medal", "medal"),
                ("a glass necklace", "necklace"),
            ),
            "years": YEARS,
        },
        told=(
            ("{other} had missed {item} for {years} years.", "It is {years} years since {other} lost {item}."),
            (
                "Last week {hero} was digging in a field when something shone.",
                "Then {hero} lifted an old floor and saw something shine.",
            ),
        ),
        endings=(
            (
                (
                    "{He} knew whose it was and took it there the same day.",
                    "{He} rang the right door bell within the hour.",
                ),
                "A {item} lost {years} years ago has been returned by a {role} from {town}.",
            ),
            (
                ("{He} told nobody and offered it at the market.", "{He} took the money of the first buyer."),
                "A {item} lost {years} years ago has been sold by a {role} from {town}.",
            ),
        ),
    ),
    "shop": Event(
        slots={
            "shop": _same("bakery", "bookshop", "cinema", "inn", "mill", "theatre"),
            "years": YEARS,
        },
        told=(
            (
                "For {years} years {other} had run the {shop} in the main street.",
                "{other} opened the {shop} {years} years ago.",
            ),
            (
                "Then the rent went up, and {hero} bought the house.",
                "When the money was gone, {hero} bought the building.",
            ),
        ),
        endings=(
            (
                ("Nothing will change, and all jobs are safe.", "The doors will stay open as before."),
                "A {role} from {town} has saved a {shop} from closing after {years} years.",
            ),
            (
                ("Nothing will stay; there will be flats instead.", "The doors are shut now, and flats will follow."),
                "A {role} from {town} has closed a {shop} after {years} years.",
            ),
        ),
    ),
    "repair": Event(
        slots={
            "thing": _same(
                "the church clock", "the old bridge", "the water mill", "the town fountain", "the cable car"
            ),
            "time": _same("three weeks", "five weeks", "two months", "six months"),
        },
        told=(
            ("Since {month} {thing} had been out of order.", "In {month} {thing} broke down."),
            (
                "{other} found the job too hard, so {hero} spent {time} on it.",
                "The council asked {other} in vain; then {hero} worked on it for {time}.",
            ),
        ),
        endings=(
            (
                ("On Sunday it was in use again, to loud applause.", "Now it runs as if it were new."),
                "A {role} from {town} has repaired {thing} in {time}.",
            ),
            (
                ("On Sunday it fell apart before everyone's eyes.", "It is still not in use."),
                "A {role} from {town} has failed to repair {thing} in {time}.",
            ),
        ),
    ),
    "vote": Event(
        slots={"office": _same("mayor", "choir leader", "rowing captain", "school director")},
        told=(
            ("Both wanted to be {office}.", "Only one of them could become {office}."),
            (
                "When all votes were counted, {hero} had {more} and {other} had {fewer}.",
                "{other} got {fewer} votes, and {hero} got {more}.",
            ),
        ),
        endings=(
            (
                ("It was over before midnight.", "The result was no surprise."),
                "A {role} from {town} has beaten a {role2} to become {office}.",
            ),
        ),
    ),
}
