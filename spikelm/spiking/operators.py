"""Operators put into a BERT or RoBERTa: in place of the softmax of each block's attention, and of its two LayerNorms.

Parameters keep their names: a norm is a child under the name of the LayerNorm that it replaces. The LayerNorm of the
embeddings stays.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from spikelm.errors import ConfigError
from spikelm.operators import NormOperator, ScoreOperator, build_operator
from spikelm.spiking.conversion import Conversion
from spikelm.spiking.lowbit_attention import NAME, give_operator
from spikelm.spiking.sites import ARCHITECTURES, BERT, architecture_of

NORMS = ("attention.output", "output")  # modules of a block that end in a LayerNorm


def replace_operators(model: Any, conversion: Conversion) -> None:
    """Give each block the operators of a conversion; those that it does not name stay as they are."""
    blocks = model.base_model.get_submodule(BERT.prefix)
    for block in blocks:
        if conversion.attention:
            give_operator(block, build_operator(conversion.attention, ScoreOperator))
        if conversion.norm:
            for path in NORMS:
                host = block.get_submodule(path)
                norm = build_operator(conversion.norm, NormOperator)
                norm.take_over(host.LayerNorm, model.config.num_attention_heads)
                host.LayerNorm = norm
    if conversion.attention:
        model.set_attn_implementation(NAME)


def refuse_operators(model: nn.Module, conversion: Conversion) -> None:
    """Raise where a model cannot have the operators of a conversion, before anything of it is changed."""
    kind = architecture_of(model)
    for group, spec in (("attention", conversion.attention), ("norm", conversion.norm)):
        if spec and ARCHITECTURES.get(kind) != (BERT,):
            raise ConfigError(
                f"{group}={spec.name or spec.target} is for a BERT or RoBERTa, not for {kind}",
                f"leave {group} out, or take a BERT",
            )
    if conversion.attention and conversion.variant.attention == "boolean":
        raise ConfigError("variant.attention=boolean has no softmax that could be replaced", "attention=softmax")
    for spec, kind_of_operator in ((conversion.attention, ScoreOperator), (conversion.norm, NormOperator)):
        if spec:
            build_operator(spec, kind_of_operator)  # type: ignore[type-abstract]
