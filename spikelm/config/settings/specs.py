"""Which class to make and with which arguments: the neuron of a model, the quantiser of its weights, its operators.

In conf/neuron, conf/weights, conf/attention and conf/norm a spec is one mapping: `_target_` names the class, some keys
describe it to the reader, all others are arguments of the class. Here the three are apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from spikelm.config.settings.fields import NO_RUN, setting

_TARGET = "_target_"


@dataclass(frozen=True)
class ClassSpec:
    """A class by its dotted name, and its arguments; a spec without a target is false: there is nothing to make."""

    target: str = setting("", decides=NO_RUN)  # where the class lives changes no result
    arguments: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.target)

    @classmethod
    def of(cls, kind: type, **arguments: Any) -> Self:
        """The spec of a class at hand: ClassSpec.of(BiSpike, k=2)."""
        return cls.from_mapping({_TARGET: f"{kind.__module__}.{kind.__qualname__}", **arguments})

    def having(self, **arguments: Any) -> Self:
        """The same class with other values of some arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    @classmethod
    def from_mapping(cls, node: Mapping[str, Any]) -> Self:
        """The spec that a composed node of conf/ says."""
        named = {item.name for item in fields(cls)} - {"target", "arguments"}
        return cls(
            target=node.get(_TARGET) or "",
            arguments={key: value for key, value in node.items() if key != _TARGET and key not in named},
            **{key: value for key, value in node.items() if key in named},
        )

    def to_mapping(self) -> dict[str, Any]:
        """The same as one mapping, as conf/ has it."""
        described = {item.name: getattr(self, item.name) for item in fields(self)}
        del described["target"], described["arguments"]
        return {**described, **({_TARGET: self.target} if self.target else {}), **self.arguments}


@dataclass(frozen=True)
class NeuronSpec(ClassSpec):
    """A neuron of conf/neuron; without a target it is the plain model's."""

    name: str = "ann"
    spikes: bool = setting(
        True, decides=NO_RUN
    )  # whether its levels are spikes, so that firing rates and additions mean something
    bits: int | str = setting(1, decides=NO_RUN)  # of an activation, as table 4 counts them: a number, ter or 2 x ter
    from_data: bool = setting(True, decides=NO_RUN)  # whether data sets its heights, where they are not each token's

    @property
    def per_token(self) -> bool:
        """Whether each token sets its heights by itself, so that no k and no data do."""
        return self.arguments.get("scale") == "token"

    @property
    def reads_k(self) -> bool:
        """Whether k makes a difference to it."""
        return "k" in self.arguments and not self.per_token

    @property
    def reads_data(self) -> bool:
        """Whether data sets its heights."""
        return bool(self) and self.from_data and not self.per_token and self.arguments.get("elastic") is not False


@dataclass(frozen=True)
class QuantizerSpec(ClassSpec):
    """A quantiser of conf/weights; without a target the weights stay as they are."""

    name: str = "none"
    bits: int | str = setting(32, decides=NO_RUN)  # of a weight, as table 4 counts them: a number, or ter
    embeddings: str = "none"  # none | tensor | rows: how the word embeddings are quantised


@dataclass(frozen=True)
class OperatorSpec(ClassSpec):
    """What stands in place of an operator of the model; without a target the operator is as the model has it."""

    name: str = ""


@dataclass(frozen=True)
class AttentionSpec(OperatorSpec):
    """An option of conf/attention: what makes weights of attention scores."""

    name: str = "softmax"


@dataclass(frozen=True)
class NormSpec(OperatorSpec):
    """An option of conf/norm: what norms the hidden states of a block."""

    name: str = "layernorm"
