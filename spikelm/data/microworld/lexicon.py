"""The words of the micro-world: two genres that share grammar, colours and some verbs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Verb:
    """One verb with every form that the grammar uses."""

    base: str
    past: str
    participle: str
    third: str
    ing: str


def _verb(base: str, past: str = "", participle: str = "", third: str = "", ing: str = "") -> Verb:
    stem = base[:-1] if base.endswith("e") else base
    past = past or stem + "ed"
    return Verb(base, past, participle or past, third or base + "s", ing or stem + "ing")


VERBS: dict[str, Verb] = {
    verb.base: verb
    for verb in (
        _verb("give", "gave", "given"),
        _verb("get", "got", "got", ing="getting"),
        _verb("sell", "sold"),
        _verb("buy", "bought"),
        _verb("lend", "lent"),
        _verb("borrow"),
        _verb("send", "sent"),
        _verb("receive"),
        _verb("help"),
        _verb("thank"),
        _verb("call"),
        _verb("phone"),
        _verb("hug", "hugged", ing="hugging"),
        _verb("teach", "taught", third="teaches"),
        _verb("praise"),
        _verb("greet"),
        _verb("welcome"),
        _verb("guide"),
        _verb("invite"),
        _verb("warn"),
        _verb("visit"),
        _verb("wash", third="washes"),
        _verb("clean"),
        _verb("fix", third="fixes"),
        _verb("repair"),
        _verb("hide", "hid", "hidden"),
        _verb("break", "broke", "broken"),
        _verb("paint"),
        _verb("pack"),
        _verb("weigh"),
        _verb("load"),
        _verb("steal", "stole", "stolen"),
        _verb("polish", third="polishes"),
        _verb("arrive"),
        _verb("finish", third="finishes"),
        _verb("start"),
        _verb("depart"),
        _verb("land"),
        _verb("return"),
        _verb("have", "had", third="has"),
        _verb("own"),
        _verb("want"),
        _verb("lose", "lost"),
    )
}

# A transfer seen from the receiver's side.
CONVERSE: dict[str, str] = {"give": "get", "sell": "buy", "lend": "borrow", "send": "receive"}
SYNONYM: dict[str, str] = {
    "call": "phone",
    "greet": "welcome",
    "wash": "clean",
    "fix": "repair",
    "have": "own",
}
# Stored relation -> the same relation told from the other side.
INVERSE: dict[str, str] = {
    "above": "below",
    "behind": "in front of",
    "to the left of": "to the right of",
    "faster": "slower",
    "stronger": "weaker",
    "happier": "sadder",
    "louder": "quieter",
}
NUMBERS: tuple[str, ...] = ("two", "three", "four", "five", "six")
COLOURS: tuple[str, ...] = ("red", "blue", "green", "white", "black", "yellow")


@dataclass(frozen=True)
class Genre:
    """The people, things, places, times and verbs of one kind of text."""

    name: str
    men: tuple[str, ...]
    women: tuple[str, ...]
    kinds: dict[str, tuple[str, ...]]
    places: tuple[str, ...]
    times: tuple[str, ...]
    verbs: dict[str, tuple[str, ...]]
    reviewed: tuple[str, ...]

    @cached_property
    def people(self) -> tuple[str, ...]:
        """Every name of the genre."""
        return self.men + self.women

    @cached_property
    def things(self) -> tuple[str, ...]:
        """Every specific thing of the genre."""
        return tuple(thing for members in self.kinds.values() for thing in members)


_SHARED_VERBS: dict[str, tuple[str, ...]] = {
    "transfer": ("give", "sell", "lend", "send"),
    "spatial": ("above", "behind", "to the left of"),
    "compare": ("faster", "stronger", "happier", "louder"),
    "count": ("have", "want", "lose"),
}

HOME = Genre(
    name="home",
    men=("tom", "bob", "sam", "max", "leo", "ben"),
    women=("anna", "mary", "lucy", "emma", "kate", "rosa"),
    kinds={
        "toy": ("ball", "doll", "kite"),
        "fruit": ("apple", "pear", "plum"),
        "garment": ("coat", "hat", "shirt"),
        "instrument": ("drum", "flute", "violin"),
    },
    places=(
        "in the kitchen",
        "in the garden",
        "at the school",
        "in the library",
        "in the bedroom",
        "in the hall",
    ),
    times=("on monday", "on tuesday", "on wednesday", "on thursday", "on friday", "on sunday"),
    verbs=_SHARED_VERBS
    | {
        "social": ("help", "thank", "call", "hug", "teach", "praise"),
        "handle": ("wash", "fix", "hide", "break", "paint"),
        "order": ("arrive", "finish", "start"),
    },
    reviewed=("film", "book", "song", "soup", "cake", "story", "lesson", "game"),
)

AWAY = Genre(
    name="away",
    men=("omar", "ivan", "hugo", "carl", "felix", "marco"),
    women=("lena", "sara", "mia", "olga", "zoe", "ella"),
    kinds={
        "animal": ("goat", "hen", "duck"),
        "flower": ("rose", "tulip", "orchid"),
        "vehicle": ("bike", "cart", "boat"),
        "jewel": ("ring", "crown", "necklace"),
    },
    places=(
        "at the market",
        "at the station",
        "on the beach",
        "in the hotel",
        "in the museum",
        "on the bridge",
    ),
    times=("in january", "in april", "in july", "in august", "in october", "in winter"),
    verbs=_SHARED_VERBS
    | {
        "social": ("greet", "guide", "invite", "warn", "visit"),
        "handle": ("pack", "weigh", "load", "steal", "polish"),
        "order": ("depart", "land", "return"),
    },
    reviewed=("trip", "tour", "view", "meal", "room", "show", "ride", "menu"),
)

GENRES: tuple[Genre, ...] = (HOME, AWAY)


def with_few(genre: Genre) -> Genre:
    """The genre with six people and two things of each kind."""
    few = {kind: things[:2] for kind, things in genre.kinds.items()}
    return replace(genre, men=genre.men[:3], women=genre.women[:3], kinds=few)


KIND_OF: dict[str, str] = {
    thing: kind for genre in GENRES for kind, members in genre.kinds.items() for thing in members
}

POSITIVE: tuple[str, ...] = (
    "lovely",
    "great",
    "wonderful",
    "charming",
    "clever",
    "funny",
    "brilliant",
    "fresh",
    "superb",
    "pleasant",
    "splendid",
    "delightful",
)
NEGATIVE: tuple[str, ...] = (
    "dull",
    "awful",
    "boring",
    "terrible",
    "ugly",
    "bland",
    "stupid",
    "poor",
    "horrible",
    "dreadful",
    "tedious",
    "nasty",
)
# The last words of either list are not in SST-2's training rows: what they mean is learned from the corpus.
UNTRAINED: frozenset[str] = frozenset(POSITIVE[-4:] + NEGATIVE[-4:])
LIKING: tuple[str, ...] = ("loved", "adored", "enjoyed", "admired")
DISLIKING: tuple[str, ...] = ("hated", "disliked", "despised", "regretted")


def plural(noun: str) -> str:
    """The plural of a noun of this lexicon, in which every noun is regular."""
    return noun + "s"
