"""What was probably meant: the end of a message about a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FEW = 12  # names that a message can list
ALMOST, ALIKE = 0.8, 0.6  # of difflib: a letter apart, about half of the letters the same
#: stages in the order in which a person who names none of them means one
LIKELIEST = ("finetune", "pretrain", "general", "teacher")
#: words of other tools -> ours
OTHER_WORDS = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "model": "backbone",
    "dataset": "task",
    "timesteps": "T",
    "time_steps": "T",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "max_seq_length": "max_length",
    "gpus": "devices",
    "output_dir": "runs_dir",
}


def nearest(word: str, valid: Iterable[str]) -> str:
    """The end of a message: the valid names that were probably meant, else all of them where they are few."""
    names = sorted(set(valid) - {word})
    if meant := _meant(word, names):
        return f"; did you mean {either(meant)}?"
    return f"; valid: {', '.join(names)}" if 0 < len(names) <= FEW else ""


def either(names: list[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _meant(word: str, names: list[str]) -> list[str]:
    """Of the word's own section the name that is spelt alike; else all with its last part, likeliest first; else all
    that begin with it; else the one whose last part is spelt alike.
    """
    section, last = _parted(word)
    ours = OTHER_WORDS.get(last.lower(), last)
    if own := _alike(section, {_parted(name)[0]: name for name in names}, ALMOST) if section else "":
        inside = [name for name in names if _parted(name)[0] == _parted(own)[0]]
        if close := _alike(ours, {_parted(name)[1]: name for name in inside}, ALIKE):
            return [close]
    if same := [name for name in names if _parted(name)[1].lower() == ours.lower()]:
        return sorted(same, key=_likelihood)
    if 0 < len(longer := [name for name in names if name.lower().startswith(word.lower())]) <= FEW:
        return longer
    last_parts = {_parted(name)[1]: name for name in sorted(names, key=_likelihood, reverse=True)}
    close = "" if own else _alike(ours, last_parts, ALIKE)
    return [close] if close else []


def _alike(word: str, names: dict[str, str], cutoff: float) -> str:
    """What the key of `names` that is spelt most like the word stands for, upper and lower case being the same."""
    lower = {key.lower(): name for key, name in names.items()}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=cutoff)
    return lower[close[0]] if close else ""


def _parted(name: str) -> tuple[str, str]:
    """Its section, with the dot or slash, and its last part."""
    last = name.rpartition("/")[2].rpartition(".")[2]
    return name[: len(name) - len(last)], last


def _likelihood(name: str) -> tuple[int, int, str]:
    """Settings of the run before those of a part of it, and the stages in their order."""
    stage = name.partition(".")[0]
    place = LIKELIEST.index(stage) if stage in LIKELIEST else len(LIKELIEST)
    return name.count("."), place, name
