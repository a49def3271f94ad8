"""Spiking versions of Hugging Face models.

`spikify(model, neuron, T)` converts in place; `SpikingBertModel.from_pretrained(folder)` (any transformers class
with `Spiking` in front) and `load_pretrained(folder)` bring a saved one back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from spikelm.errors import CheckpointError
from spikelm.spiking.mlm_head import apply_transform_act
from spikelm.spiking.spikify import Spiking, neurons, spikify, spiking_class


def __getattr__(name: str) -> Any:
    if not name.startswith("Spiking"):
        raise AttributeError(name)
    import transformers

    return spiking_class(getattr(transformers, name.removeprefix("Spiking")))


def load_pretrained(folder: str | Path, **kwargs: Any) -> nn.Module:
    """The model saved in `folder`, spiking or not, as the class it was saved from."""
    import transformers

    from spikelm.catalog.kinds import own_class

    path = Path(folder) / "config.json"
    try:
        name = json.loads(path.read_text())["architectures"][0]
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} does not hold a saved model: {error}") from error
    plain = name.removeprefix("Spiking")
    cls = getattr(transformers, plain, None) or own_class(plain)  # no name is in both
    if cls is None:
        raise CheckpointError(f"{folder} holds a {plain}, which neither transformers nor spikelm knows")
    model = (spiking_class(cls) if name.startswith("Spiking") else cls).from_pretrained(folder, **kwargs)
    apply_transform_act(model)
    return model


__all__ = ["Spiking", "load_pretrained", "neurons", "spikify", "spiking_class"]
