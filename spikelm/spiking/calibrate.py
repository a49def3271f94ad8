"""Spike amplitudes from data, without training: a = k mean|m| of each time step, as a first training batch sets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.spiking.spikify import neurons

AnyBatch = TypeVar("AnyBatch")


def calibrate(model: Any, batches: Mapping[str, Any] | Tensor | Iterable[Mapping[str, Any] | Tensor]) -> nn.Module:
    """Set the spike amplitudes of a model that `spikify` converted, by a look at some batches; no weight changes.

    An elastic neuron fires with the height a = k mean|m|, which depends on the data. Each batch is seen once, without
    dropout and without gradients, and the mean over the batches is kept. It is saved with the model, and calibrating
    again replaces it. Neurons without such an amplitude (LIF, PSN) need no calibration and stay as they are.

    Args:
        model: The spiking model.
        batches: One batch or several: mappings of arguments of the model to tensors, such as what a tokenizer of
            transformers returns, or tensors of input ids.

    Returns:
        The same model, ready to be called; it is in train or eval mode as before.

    Raises:
        ConfigError: If there is no batch, or no neuron in the model.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.spiking import calibrate, neurons, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> model = spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "bispike", T=2)
        >>> model = calibrate(model, [torch.randint(100, (8, 16)) for _ in range(3)])
        >>> all(bool((neuron.alpha > 0).all()) for neuron in neurons(model))
        True
    """
    if next(neurons(model), None) is None:
        raise ConfigError(f"{type(model).__name__} has no neurons to calibrate", 'spikify(model, "bispike", T=4) first')
    several = [batches] if isinstance(batches, Mapping | Tensor) else batches
    modes = {module: module.training for module in model.modules()}
    model.eval()
    for neuron in elastic_neurons(model):
        neuron.train()  # it sets its amplitude in train mode only
    try:
        average_amplitudes(model, several, lambda batch: _call(model, batch))
    finally:
        for module, training in modes.items():
            module.training = training
    return model


@torch.no_grad()
def average_amplitudes(model: nn.Module, batches: Iterable[AnyBatch], forward: Callable[[AnyBatch], object]) -> None:
    """The mean of the amplitudes that each batch sets by itself; the neurons have to be in train mode."""
    elastic = elastic_neurons(model)
    sums = [torch.zeros_like(neuron.alpha) for neuron in elastic]
    seen = 0
    for seen, batch in enumerate(batches, start=1):  # noqa: B007 (used below)
        for neuron in elastic:
            neuron.forget()
        forward(batch)
        for total, neuron in zip(sums, elastic, strict=True):
            total += neuron.alpha
    if not seen:
        raise ConfigError("there is no batch to set the amplitudes from", "give at least one")
    for total, neuron in zip(sums, elastic, strict=True):
        neuron.alpha.copy_(total / seen)


def elastic_neurons(model: nn.Module) -> list[AmplitudeNeuron]:
    """The neurons whose amplitude data sets."""
    return [neuron for neuron in neurons(model) if isinstance(neuron, AmplitudeNeuron) and neuron.elastic]


def _call(model: Any, batch: Mapping[str, Any] | Tensor) -> Any:
    if isinstance(batch, Tensor):
        return model(batch.to(model.device))
    return model(**{key: value.to(model.device) if torch.is_tensor(value) else value for key, value in batch.items()})
