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
    """Bring back a model that `save_pretrained` saved, spiking or not.

    Neurons, amplitudes and quantisers come back as they were: nothing has to be converted or calibrated again.

    Args:
        folder: The folder with `config.json` and the weights.
        **settings: Those of transformers' `from_pretrained`, for example `dtype`.

    Returns:
        The model in eval mode, as the class that it was saved from.

    Raises:
        CheckpointError: If the folder holds no saved model, or one of an unknown class.

    Examples:
        >>> import tempfile, torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.spiking import calibrate, load_pretrained, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> ids = torch.randint(100, (8, 16))
        >>> model = calibrate(spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "bispike", T=2), ids).eval()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_pretrained(folder)
        ...     again = load_pretrained(folder)
        >>> bool((again(ids).last_hidden_state == model(ids).last_hidden_state).all())
        True
    """
    model: nn.Module = saved_class(folder).from_pretrained(folder, **settings)
    apply_transform_act(model)
    return model


def saved_class(folder: str | Path) -> Any:
    """The class of the model that a folder holds, by its config.json; the weights are not looked at."""
    path = Path(folder) / "config.json"
    try:
        name = json.loads(path.read_text())["architectures"][0]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{folder} does not hold a saved model: {error}") from error
    plain = name.removeprefix("Spiking")
    cls = getattr(transformers, plain, None) or own_class(plain)  # no name is in both
    if cls is None:
        raise CheckpointError(f"{folder} holds a {plain}, which neither transformers nor spikelm knows")
    return spiking_class(cls) if name.startswith("Spiking") else cls


def apply_transform_act(model: Any) -> None:
    """Give the MLM head's transform the activation that `config.transform_act` names, if it names one."""
    name = getattr(model.config, "transform_act", None)
    heads = getattr(model, "cls", None)
    if name and heads is not None:
        heads.predictions.transform.transform_act_fn = ACT2FN[name]
