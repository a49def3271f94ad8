"""Which way is better: a high score, a low loss, little energy. Settings (T, bits) and words have no better."""

from __future__ import annotations

from typing import Literal

Better = Literal["higher", "lower", ""]
LOWER = ("loss", "perplexity", "bits_per_byte", "energy", "seconds")
#: columns of tables that are settings, counts or words
NEITHER = (
    *("T", "weight_bits", "act_bits", "levels", "firing", "events", "virtual_steps"),
    *("discrimination", "generation", "verdict", "operations"),
)


def better(name: str) -> Better:
    """The direction of a metric, or of a column of a table, by its name."""
    if name in NEITHER:
        return ""
    return "lower" if any(word in name.lower() for word in LOWER) else "higher"
