"""Spiking and low-bit versions of Hugging Face models; may import weights, neurons and below, but no models.

`spikify(model, "bispike", k=2, T=4)` converts a model in place, `calibrate(model, batches)` sets its amplitudes, and
`load_pretrained(folder)` brings a saved one back, as does `SpikingBertModel.from_pretrained(folder)`: any class of
transformers with `Spiking` before it.
"""

from __future__ import annotations

from typing import Any

import transformers

from spikelm.spiking.calibrate import calibrate
from spikelm.spiking.load import load_pretrained
from spikelm.spiking.spikify import Spiking, neurons, spikify, spiking_class


def __getattr__(name: str) -> Any:
    if not name.startswith("Spiking"):
        raise AttributeError(name)
    return spiking_class(getattr(transformers, name.removeprefix("Spiking")))


__all__ = ["Spiking", "calibrate", "load_pretrained", "neurons", "spikify", "spiking_class"]
