"""Neurons: how a real value becomes spikes, one file each; `build_neuron` makes one from its spec.

Plain torch: they may import config, errors and rules, neither Hydra nor transformers.
"""

from __future__ import annotations

from spikelm.config import trust
from spikelm.config.settings.specs import ClassSpec
from spikelm.neurons.neuron import Neuron


def build_neuron(spec: ClassSpec, T: int = 1, memory: bool = True) -> Neuron:
    """The neuron of a spec, if its package is trusted, for T time steps."""
    neuron: Neuron = trust.load(spec.target, "neuron class")(T=T, memory=memory, **spec.arguments)
    return neuron


__all__ = ["ClassSpec", "Neuron", "build_neuron"]
