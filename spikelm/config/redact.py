"""Keys and tokens stay where they belong, in the environment: never in a config, a record or a message.

What is published (a model card) leaves out the folders of the machine as well.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from spikelm.errors import ConfigError

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SHORTEST = 8  # letters: a shorter value is no secret, and would blacken half of every message
#: keys as Hugging Face, W&B, GitHub, OpenAI and AWS issue them
_SHAPES = re.compile(
    r"\bwandb_v\d+_\w{20,}|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bsk-[\w-]{20,}|\bAKIA[A-Z0-9]{16}\b"
)
#: an older key of W&B; a commit of the hub looks the same, but stands behind @, or is called a revision
_HEX = re.compile(r"(?<![\w/@-])[0-9a-f]{40}(?![\w-])")

#: a folder of this machine: two names at least behind a slash that begins a word
_PATH = re.compile(r"(?<![\w.:/~-])(?:~|/[\w.+@-]+)(?:/[\w.+@-]+)+/?")


def _of_environment() -> list[str]:
    found = {value for name, value in os.environ.items() if _NAMES.search(name) and len(value) >= _SHORTEST}
    return sorted(found, key=len, reverse=True)


def redacted(text: str) -> str:
    """A message without the secrets of the environment and without anything that has the shape of a key."""
    for secret in _of_environment():
        text = text.replace(secret, "***")
    return _SHAPES.sub("***", text)


def refuse_secrets(overrides: Iterable[str]) -> None:
    """Raise where an override holds a secret: what is in a config is recorded, tracked and shown."""
    for override in overrides:
        key, _, value = override.partition("=")
        if redacted(value) != value or (_HEX.search(value) and "revision" not in override):
            raise ConfigError(
                f"the value of {redacted(key)} looks like a key or token; configs are recorded and shown",
                "set it in the environment (WANDB_API_KEY, HF_TOKEN) and leave it out of the command",
            )


def without_folders(text: str) -> str:
    """A text to be published: without secrets, and without the folders of this machine, which tell who made it."""
    return _PATH.sub("FOLDER", redacted(text).replace(str(Path.home()), "~"))


def publishable_command(command: str) -> str:
    """A command to be published: a value that names a place on this machine becomes the name of its key, in capitals.

    What a reader puts there is theirs: source.root=ROOT, backbone.path=PATH.
    """
    words = []
    for word in shlex.split(command):
        key, equals, value = word.partition("=")
        held = value if equals else word
        if _names_a_place(held):
            word = f"{key}={key.rpartition('.')[2].upper()}" if equals else "FOLDER"
        words.append(word)
    return without_folders(shlex.join(words))


def _names_a_place(value: str) -> bool:
    """Whether a value is an absolute path, one of the home folder or above this one, or has such a path in it."""
    return re.search(r"(?:^|[\s'\":,\[{(])(?:/|~|\.\./)", value) is not None
