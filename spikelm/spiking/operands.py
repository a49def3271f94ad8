"""Neurons of keys and values that want to know, on their first batch, by what the attention multiplies these.

They fire before the attention has a map, so they keep what they read until the attention hands the operand over
(saved/sdpa.py). An attention that does not do so is refused behind that batch's first pass through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from spikelm.config.settings.backbone import VariantConfig
from spikelm.errors import ConfigError
from spikelm.neurons import Neuron
from spikelm.neurons.unfolding.gif import GIF
from spikelm.spiking.conversion import Conversion
from spikelm.spiking.sites import Site, stacks_of

FIX = "neuron.saliency=weights"
NAMES = "waiting_neurons"  # of an attention: where in it the neurons are that an operand is handed to


def refuse_operands(model: nn.Module, conversion: Conversion, neuron: Neuron) -> None:
    """Raise where a neuron asks for operands in a model whose attention cannot name them."""
    if not (isinstance(neuron, GIF) and neuron.by_operands):
        return
    if conversion.attention or conversion.variant.attention != VariantConfig().attention:
        raise ConfigError("neuron.saliency=operands needs the real softmax of an attention, which is replaced", FIX)
    for stack in stacks_of(model):
        for site in stack.sites:
            if site.at != "input" and site.met_by is None:
                raise ConfigError(
                    f"neuron.saliency=operands: no query and no softmax reads the spikes of {site.name} "
                    f"in {type(model).__name__}",
                    FIX,
                )


def await_operand(block: Any, site: Site, neuron: Neuron) -> None:
    """Let a neuron of keys or values that asks for its operand wait for it, if it does."""
    if not (isinstance(neuron, GIF) and neuron.by_operands and site.met_by):
        return
    neuron.met_by = site.met_by
    path, child = (site.path, "") if site.at == "cache" else site.path.rsplit(".", 1)
    attention = block.get_submodule(path)
    names = getattr(attention, NAMES, ())
    if not names:
        attention.register_forward_hook(_refuse_unmet)
    # Names, not neurons: copies of a model stay independent.
    setattr(attention, NAMES, (*names, f"{child}.{site.child}".lstrip(".")))


def waiting(attention: Any) -> list[GIF]:
    """The neurons in an attention that have read a batch whose operand they wait for."""
    found = (attention.get_submodule(name) for name in getattr(attention, NAMES, ()))
    return [neuron for neuron in found if neuron.kept is not None]


def hand_over(attention: Any, operands: Mapping[str, Tensor], key: Tensor) -> None:
    """Give them their operands, (rows, heads, m, .); those of the queries that share a key's head go to it together."""
    for neuron in waiting(attention):
        assert neuron.met_by is not None
        assert neuron.kept is not None
        if neuron.kept.shape[-2] != key.shape[2]:
            neuron.kept = None
            raise ConfigError(
                "neuron.saliency=operands: a first batch that continues a cache does not show all its keys and values",
                f"calibrate(model, batches) with whole sequences first, or {FIX}",
            )
        neuron.meet(operands[neuron.met_by].unflatten(1, (key.shape[1], -1)).flatten(2, 3))


def _refuse_unmet(attention: Any, args: tuple, output: Any) -> None:
    if left := waiting(attention):
        for neuron in left:
            neuron.kept = None
        raise ConfigError(
            "neuron.saliency=operands needs torch's attention, which hands its operands over, "
            f"not {attention.config._attn_implementation}",
            f'{FIX}, or load the model with attn_implementation="sdpa"',
        )
