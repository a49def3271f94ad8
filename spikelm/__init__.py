"""spikelm: an experiment runner for spiking language models.

`from spikelm import spikify, calibrate, load_pretrained` works as well: torch is imported only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in ("calibrate", "load_pretrained", "spikify"):
        raise AttributeError(f"module 'spikelm' has no attribute {name!r}")
    return getattr(import_module("spikelm.spiking"), name)
