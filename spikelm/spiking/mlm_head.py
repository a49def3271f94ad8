"""What transformers' BERT cannot say: an activation of the MLM head other than the FFN's."""

from __future__ import annotations

from typing import Any

from transformers.activations import ACT2FN


def apply_transform_act(model: Any) -> None:
    """Give the MLM head's transform the activation that `config.transform_act` names, if it names one."""
    name = getattr(model.config, "transform_act", None)
    heads = getattr(model, "cls", None)
    if name and heads is not None:
        heads.predictions.transform.transform_act_fn = ACT2FN[name]
