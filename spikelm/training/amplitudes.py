"""Spike amplitudes from data: the first batch as in the paper, a mean over several, or anew while weights change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from spikelm.data.batches.by_step import Batch
from spikelm.spiking.calibrate import average_amplitudes, elastic_neurons


def amplitudes_missing(model: nn.Module) -> bool:
    """Whether some amplitude was neither set by a batch nor brought by a checkpoint."""
    return any(not neuron.ready for neuron in elastic_neurons(model))


def forget_amplitudes(model: nn.Module) -> None:
    """The next batch in train mode sets the amplitudes anew; learnable ones stay what they have learned."""
    for neuron in elastic_neurons(model):
        if not neuron.learnable:
            neuron.forget()


def amplitudes_follow(model: nn.Module) -> bool:
    """Whether some amplitude changes with every training batch."""
    return any(neuron.follows for neuron in elastic_neurons(model))


@contextmanager
def held_amplitudes(model: nn.Module) -> Iterator[None]:
    """Amplitudes that follow the batches stay what they are inside: one batch is gone through in parts."""
    following = [neuron for neuron in elastic_neurons(model) if neuron.follows]
    for neuron in following:
        neuron.observing = False
    try:
        yield
    finally:
        for neuron in following:
            neuron.observing = True


def set_amplitudes(model: nn.Module, batches: Iterable[Batch], forward: Callable[[Batch], object]) -> None:
    """a = mean over the batches of k mean|m|; each batch is seen with amplitudes of its own, and with dropout."""
    model.train()
    average_amplitudes(model, batches, forward)
