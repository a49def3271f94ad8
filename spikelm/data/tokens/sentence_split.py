"""Text to sentences."""

from __future__ import annotations

import re

_ENDS = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")


def sentences(text: str) -> list[str]:
    """A text cut after full stops, exclamation and question marks, and at line ends."""
    return [part for part in _ENDS.split(text.strip()) if part]
