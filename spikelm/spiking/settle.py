"""A model with ST-BIF neurons as the network over time that it stands for, until it has settled.

An ST-BIF neuron emits at most one spike a step, -s or s, and takes back what it fired too soon. All that stands between
two neurons is computed on running sums (SpikeZIP-TF calls these operators spike-equivalent): what leaves them up to
step t is f of what came in up to step t. So a step is one ordinary forward pass in which every neuron reads the sum of
its input so far and gives the sum of its spikes so far. When no neuron has fired in a step, none will again, and each
has fired as often as the quantiser's level says: the output is that of the quantised network, the ordinary forward
pass, but for values that lie on the edge of two levels to the last digit.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.neurons.unfolding.stbif import STBIF, st_bif_step
from spikelm.spiking.sites import stacks_of
from spikelm.spiking.spikify import neurons


@dataclass(frozen=True)
class Settled:
    """How a network of ST-BIF neurons came to rest, and how far it is from the quantised network then."""

    steps: int  # in which some neuron fired
    settled: bool  # whether a step without a spike was reached
    spikes_per_value: float  # that really happened, corrections included
    levels_per_value: float  # the spikes that are left when those of opposite sign are taken from each other
    differing: int  # values whose level is not the quantiser's
    difference: float  # the largest of the model's output


class SpikeTrain:
    """One neuron over the steps: it reads the sum of its input so far and gives the sum of its spikes so far.

    At step t it integrates (X_t - X_{t-1}) / s as `spike_train` says; the output is s A.
    """

    def __init__(self, neuron: STBIF) -> None:
        self.neuron = neuron
        self.fired: Tensor | None = None  # |z| of the last step
        self.spikes = torch.zeros((), dtype=torch.int64)  # of all steps
        self.tracer: Tensor | None = None  # A
        self._membrane: Tensor | None = None  # q
        self._before: Tensor | None = None  # X_{t-1}

    def __call__(self, x: Tensor) -> Tensor:
        s = self.neuron.step(x)
        if self._membrane is None or self.tracer is None or self._before is None:
            zero = torch.zeros_like(x)
            self._membrane, self.tracer, self._before = zero + 0.5, zero, zero
        change = (x - self._before) / s
        spikes, self._membrane, self.tracer = st_bif_step(change, self._membrane, self.tracer, *self.neuron.bounds)
        self.fired = spikes != 0
        self.spikes = self.spikes.to(x.device) + self.fired.sum()
        self._before = x
        return self.tracer * s


@contextmanager
def over_steps(model: nn.Module) -> Iterator[list[SpikeTrain]]:
    """Inside, each call of the model is one more step of its ST-BIF neurons."""
    trains = [SpikeTrain(neuron) for neuron in neurons(model) if isinstance(neuron, STBIF)]
    if not trains:
        raise ConfigError("only ST-BIF neurons settle, and the model has none", "neuron=stbif")
    for train in trains:
        train.neuron.forward = train  # type: ignore[method-assign, assignment]
    try:
        yield trains
    finally:
        for train in trains:
            del train.neuron.forward  # that of its class again


@torch.no_grad()
def settle(model: nn.Module, batch: Mapping[str, Any], most: int) -> Settled:
    """Step a copy of a model in double precision until nothing fires, `most` steps at the longest.

    Args:
        model: A calibrated model that `spikify` gave the neuron stbif.
        batch: Arguments of the model.
        most: Steps after which it is given up.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.spiking import calibrate, spikify
        >>> from spikelm.spiking.settle import settle
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> batch = {"input_ids": torch.randint(100, (2, 8))}
        >>> model = calibrate(spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "stbif", T=1), batch)
        >>> told = settle(model, batch, most=200)
        >>> told.settled, told.differing, told.difference < 1e-9
        (True, 0, True)
    """
    exact: Any = copy.deepcopy(model).double().eval()
    if any(stack.cached for stack in stacks_of(exact)):
        batch = {**batch, "use_cache": False}  # nothing is generated: a cache would only round what it keeps
    quantised, levels = _quantised(exact, batch)
    with over_steps(exact) as trains:
        output, steps, settled = quantised, 0, False
        for _ in range(most):
            output = exact(**batch)[0]
            if not bool(torch.stack([_any(train) for train in trains]).any()):
                settled = True
                break
            steps += 1
    called = [train for train in trains if train.tracer is not None]
    values = sum(_tracer(train).numel() for train in called)
    differing = sum(int((_tracer(train) != levels[train.neuron.site]).sum()) for train in called)
    return Settled(
        steps=steps,
        settled=settled,
        spikes_per_value=sum(int(train.spikes) for train in called) / values,
        levels_per_value=sum(float(_tracer(train).abs().sum()) for train in called) / values,
        differing=differing,
        difference=float((output - quantised).abs().max()),
    )


def _quantised(model: Any, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """What the quantised network gives, and the level of every value by its site."""
    levels: dict[str, Tensor] = {}

    def keep(neuron: Any, args: tuple, output: Tensor) -> None:
        levels[neuron.site] = (output / neuron.step(output)).round()

    hooks = [neuron.register_forward_hook(keep) for neuron in neurons(model) if isinstance(neuron, STBIF)]
    try:
        return model(**batch)[0], levels
    finally:
        for hook in hooks:
            hook.remove()


def _any(train: SpikeTrain) -> Tensor:
    return torch.zeros((), dtype=torch.bool) if train.fired is None else train.fired.any()


def _tracer(train: SpikeTrain) -> Tensor:
    assert train.tracer is not None, "only neurons that were called are asked"
    return train.tracer
