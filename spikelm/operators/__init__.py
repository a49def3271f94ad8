"""Operators: what stands in place of a softmax or a LayerNorm, one file each; `build_operator` makes one from its spec.

Plain torch: they may import neurons and below, neither Hydra nor transformers.
"""

from __future__ import annotations

from typing import TypeVar

from spikelm.config import trust
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.operators.operator import NormOperator, Operator, ScoreOperator

Made = TypeVar("Made", bound=Operator)


def build_operator(spec: ClassSpec, kind: type[Made]) -> Made:
    """The operator of a spec, if its package is trusted and it is of the kind that is asked for."""
    operator = trust.load(spec.target, "operator class")(**spec.arguments)
    if not isinstance(operator, kind):
        raise ConfigError(f"{spec.target} is no {kind.__name__}", "attention=ptsoftmax, norm=bspn")
    return operator


__all__ = ["NormOperator", "Operator", "ScoreOperator", "build_operator"]
