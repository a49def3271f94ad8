"""The rows of the task spikelm_microworld: they are in microworld.jsonl, which `python microworld.py` writes anew.

A row tells two facts of a scene as the embedded corpus does, asks for a part of one of them, and offers four answers.
The wrong ones are of the same sort as the right one, and at least one of them is told in the text, of the other fact.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import datasets

FILE = Path(__file__).with_name("microworld.jsonl")
ROWS = 40
CHOICES = 4
SEED = "spikelm_microworld/1"  # the embedded corpus is drawn from other seeds


def dataset(**_: Any) -> dict[str, datasets.Dataset]:
    """What lm-evaluation-harness asks for: the rows by split."""
    rows = [json.loads(line) for line in FILE.read_text().splitlines()]
    return {"test": datasets.Dataset.from_list(rows)}


def row(rng: random.Random) -> dict[str, Any]:
    """A text that ends with a question, its four possible answers, and which of them is true."""
    from spikelm.data.microworld.corpus import cast
    from spikelm.data.microworld.lexicon import GENRES
    from spikelm.data.microworld.wording import statement, wh_question
    from spikelm.data.microworld.world import CORE, FRAMES, sample_fact

    while True:
        genre = rng.choice(GENRES)
        scene = cast(rng, genre)
        frames = [frame for frame in FRAMES if frame != "count"]  # whose question asks for a number
        asked, other = (sample_fact(rng, scene, frame) for frame in rng.sample(frames, 2))
        slot = rng.choice([*CORE[asked.frame], "place", "time"])
        wrong = wrong_answers(rng, genre, asked, slot)
        told = [value for value in wrong if value in other]
        if told:
            break
    options = [str(getattr(asked, slot)), *(told + [value for value in wrong if value not in told])[: CHOICES - 1]]
    rng.shuffle(options)
    facts = [asked, other]
    rng.shuffle(facts)
    text = " ".join(f"{statement(rng, fact)} ." for fact in facts)
    a_thing = slot == "theme" or (asked.frame == "spatial" and slot in ("agent", "partner"))
    return {
        "text": f"{text} {wh_question(rng, asked.only(()), slot)}",
        "choices": [f"the {value} ." if a_thing else f"{value} ." for value in options],
        "answer": options.index(str(getattr(asked, slot))),
    }


def wrong_answers(rng: random.Random, genre: Any, fact: Any, slot: str) -> list[str]:
    """Other values of a slot; none that the fact names already, and one of each kind of thing."""
    from spikelm.data.microworld.lexicon import KIND_OF
    from spikelm.data.microworld.world import values

    def kind(value: str) -> str:
        return KIND_OF.get(value, value)

    candidates = list(values(genre, fact.frame, slot))
    rng.shuffle(candidates)
    by_kind = {kind(value): value for value in candidates}
    named = {kind(value) for value in fact if value}
    return [value for name, value in by_kind.items() if name not in named]


def rows() -> list[dict[str, Any]]:
    """All rows, the same whenever they are drawn."""
    return [row(random.Random(f"{SEED}/{number}")) for number in range(ROWS)]


if __name__ == "__main__":
    FILE.write_text("".join(f"{json.dumps(each)}\n" for each in rows()))
