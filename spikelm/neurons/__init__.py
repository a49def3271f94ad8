"""Neurons: how a real value becomes spikes. One file each; `build_neuron` makes one from its config."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from spikelm.errors import ConfigError
from spikelm.neurons.base import Neuron

#: packages a neuron's `_target_` may come from; `allow_neurons_from` adds a user's own
_allowed = {"spikelm"}


def allow_neurons_from(package: str) -> None:
    """Let `_target_` name classes of `package`: a deliberate act, because a config can then run its code."""
    _allowed.add(package)


def allowed_packages() -> set[str]:
    """The packages a neuron may come from."""
    return set(_allowed)


def load_class(target: str, what: str = "neuron") -> Any:
    """The class that a `_target_` names, if its package is allowed."""
    module, _, name = target.rpartition(".")
    if module.split(".")[0] not in _allowed:
        raise ConfigError(
            f"{what} class {target} is outside the allowed packages ({', '.join(sorted(_allowed))})",
            f"import spikelm.neurons; spikelm.neurons.allow_neurons_from({module.split('.')[0]!r})",
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what} class {target} cannot be imported: {error}") from error


def build_neuron(spec: Mapping[str, Any], memory: bool = True) -> Neuron:
    """A neuron from its config node: `_target_` names the class, the rest are its arguments."""
    arguments = dict(spec)
    return load_class(arguments.pop("_target_"))(memory=memory, **arguments)


__all__ = ["Neuron", "allow_neurons_from", "allowed_packages", "build_neuron", "load_class"]
