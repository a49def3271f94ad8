"""Neurons: how a real value becomes spikes. One file each; `build_neuron` makes one from its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spikelm.config import trust
from spikelm.neurons.base import Neuron


def allow_neurons_from(package: str) -> None:
    """Let `_target_` name classes of `package`: a deliberate act, because a config can then run its code."""
    trust.trust(package)


def load_class(target: str, what: str = "neuron") -> Any:
    """The class that a `_target_` names, if its package is trusted."""
    return trust.load(target, f"{what} class")


def build_neuron(spec: Mapping[str, Any], memory: bool = True) -> Neuron:
    """A neuron from its config node: `_target_` names the class, the rest are its arguments."""
    arguments = dict(spec)
    return load_class(arguments.pop("_target_"))(memory=memory, **arguments)


__all__ = ["Neuron", "allow_neurons_from", "build_neuron", "load_class"]
