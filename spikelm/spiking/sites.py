"""Where neurons sit in each architecture. Another Hugging Face architecture is one entry here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from spikelm.errors import ConfigError


@dataclass(frozen=True)
class Site:
    """One place for a neuron in a block: at the input or at the output of the module at `path`."""

    name: str
    path: str
    at: Literal["input", "output"]
    memory: bool = True


@dataclass(frozen=True)
class Stack:
    """A stack of equal blocks inside the base model; time is folded into the batch around it."""

    path: str
    blocks: str
    sites: tuple[Site, ...]


# Facts 2.15: six linears per layer, whose q, k and v share one input neuron, and the outputs of key and value.
BERT = Stack(
    path="encoder",
    blocks="layer",
    sites=(
        Site("qkv_in", "attention.self", "input"),
        Site("key_out", "attention.self.key", "output", memory=False),
        Site("value_out", "attention.self.value", "output", memory=False),
        Site("attn_out_in", "attention.output.dense", "input"),
        Site("ffn1_in", "intermediate.dense", "input"),
        Site("ffn2_in", "output.dense", "input"),
    ),
)

ARCHITECTURES: dict[str, tuple[Stack, ...]] = {"bert": (BERT,)}


def stacks_of(model: nn.Module) -> tuple[Stack, ...]:
    """The stacks of a model, by its Hugging Face model type."""
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if kind not in ARCHITECTURES:
        raise ConfigError(
            f"no sites are known for architecture {kind!r} (known: {', '.join(ARCHITECTURES)})",
            "add an entry to spikelm/spiking/sites.py",
        )
    return ARCHITECTURES[kind]
