"""What is measured of a model: metrics, firing rates, energy, the spike audit.

It knows models and spikes, not tasks; it may import models, spiking and what is below them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # torch is imported only where a card is made: commands that ask for sizes alone stay quick.
    if name not in ("EnergyCard", "energy_card"):
        raise AttributeError(f"module 'spikelm.measure' has no attribute {name!r}")
    return getattr(import_module("spikelm.measure.card"), name)
