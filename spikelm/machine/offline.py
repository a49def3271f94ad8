"""The variables that forbid the hub's libraries to use the network: which are set, and how to say so."""

from __future__ import annotations

import os

#: read by huggingface_hub and transformers (the first two), and by datasets
VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
TRUE = ("1", "ON", "YES", "TRUE")  # what the libraries take for yes, in any case


def offline_variables() -> list[str]:
    """The variables that are set to a yes, as NAME=VALUE."""
    said = {name: os.environ.get(name, "").strip() for name in VARIABLES}
    return [f"{name}={value}" for name, value in said.items() if value.upper() in TRUE]


def offline_reason() -> str:
    """Why nothing may be fetched, to stand after a colon; empty where nothing forbids it."""
    variables = offline_variables()
    verb = "forbids" if len(variables) == 1 else "forbid"
    return f"it is not in the hub's cache, and {' and '.join(variables)} {verb} to fetch it" if variables else ""


def online_fix() -> str:
    """What lets it be fetched, to stand before other ways out; empty where nothing forbids it."""
    names = [variable.partition("=")[0] for variable in offline_variables()]
    if not names:
        return ""
    return f"unset {' '.join(names)} (with make: {' '.join(f'{name}=0' for name in names)}), or "
