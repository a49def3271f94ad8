"""Saved models brought back, spiking or not, and what transformers' BERT cannot say about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import transformers
from torch import nn
from transformers.activations import ACT2FN

from spikelm.catalog.kinds import own_class
from spikelm.errors import CheckpointError
from spikelm.spiking.spikify import spiking_class


def load_pretrained(folder: str | Path, **settings: Any) -> nn.Module:
    """The model saved in `folder`, as the class it was saved from; `settings` are those of from_pretrained."""
    path = Path(folder) / "config.json"
    try:
        name = json.loads(path.read_text())["architectures"][0]
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} does not hold a saved model: {error}") from error
    plain = name.removeprefix("Spiking")
    cls = getattr(transformers, plain, None) or own_class(plain)  # no name is in both
    if cls is None:
        raise CheckpointError(f"{folder} holds a {plain}, which neither transformers nor spikelm knows")
    model: nn.Module = (spiking_class(cls) if name.startswith("Spiking") else cls).from_pretrained(folder, **settings)
    apply_transform_act(model)
    return model


def apply_transform_act(model: Any) -> None:
    """Give the MLM head's transform the activation that `config.transform_act` names, if it names one."""
    name = getattr(model.config, "transform_act", None)
    heads = getattr(model, "cls", None)
    if name and heads is not None:
        heads.predictions.transform.transform_act_fn = ACT2FN[name]
