"""A neuron and the linears that read its spikes, as one module: queries, keys and values are one product.

How a neuron is read depends on what it fires:

- levels f of the clip family, at heights h_t that are in the weights: y_t = h_t W f_t + b
- whole numbers n of a code, on a step S: y = S (W n) + b
- any other spikes: as they are; in int8 the signs f_v of each virtual step, whose height a_v is one for each token:
  y = a_1 W f_1 + a_2 W f_2 + ... + b
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.export.event.linear import EventLinear
from spikelm.export.linears import SpikeLinear
from spikelm.neurons import Neuron
from spikelm.neurons.amplitude import ALPHA_FLOOR
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels.inference import levels
from spikelm.neurons.lif import LIF
from spikelm.neurons.unfolding.coded import CodedNeuron


class Reader(nn.Module):
    """y (T, ..., outputs of all linears side by side) of what the neuron reads, (T, ..., inputs)."""

    def __init__(self, T: int, linear: SpikeLinear) -> None:
        super().__init__()
        self.T = T
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x).unflatten(1, x.shape[1:-1])

    def product(self, x: Tensor) -> Tensor:
        """The same as (T, rows, outputs)."""
        raise TypeError(f"{type(self).__name__} does not say how it reads")


class ThresholdReader(Reader):
    """Of bi-spikes and LIF: no neuron is left, only its thresholds."""

    threshold: Tensor

    def __init__(self, neuron: BiSpike | LIF, linear: SpikeLinear) -> None:
        super().__init__(neuron.T, linear)
        self.rule = neuron.rule
        self.at_once = neuron.T == 1 or not neuron.rule.beta  # no step has to wait for another
        self.register_buffer("threshold", threshold_of(neuron).view(-1, 1, 1))

    def product(self, x: Tensor) -> Tensor:
        rows = x.flatten(1, -2)
        if self.at_once and isinstance(self.linear, EventLinear):
            return self.linear.fired(rows, self.threshold, self.rule)
        return self.linear(levels(rows, self.threshold, self.rule))


class CodeReader(Reader):
    """Of neurons whose output is a whole number on a step."""

    def __init__(self, neuron: CodedNeuron, linear: SpikeLinear) -> None:
        super().__init__(neuron.T, linear)
        self.neuron = neuron

    def product(self, x: Tensor) -> Tensor:
        numbers, step = self.neuron.code(x)
        return self.linear(numbers.flatten(1, -2), step.flatten(1, -2))


class SpikeReader(Reader):
    """Of any neuron: its virtual steps one by one, or in float32 their sum."""

    def __init__(self, neuron: Neuron, linear: SpikeLinear) -> None:
        super().__init__(neuron.T, linear)
        self.neuron = neuron
        self.seen = False  # whether it is known that each virtual step has one height

    def product(self, x: Tensor) -> Tensor:
        if not self.linear.int8:
            return self.linear(self.neuron(x).flatten(1, -2))
        y: Tensor | None = None
        for part in self.neuron.unfolded_parts(x):
            for spikes in part:
                rows = spikes.flatten(1, -2)
                signs, height = rows.sign(), rows.abs().amax(-1, keepdim=True)
                if not self.seen and not torch.equal(signs * height, rows):
                    raise ConfigError(
                        f"{type(self.neuron).__name__} at {self.neuron.site} does not fire -a, 0 and a: its values are "
                        "no products of bytes",
                        "precision=fp32",
                    )
                y = self.linear(signs, height, y, biased=y is None)
        assert y is not None, "a neuron has at least one virtual step"
        self.seen = True
        return y


def reads_code(neuron: Neuron, precision: str) -> bool:
    """Whether a neuron's whole numbers are multiplied as such: they fit a byte, or bytes are not asked for."""
    return isinstance(neuron, CodedNeuron) and neuron.whole and (precision == "fp32" or neuron.rule.dtype == torch.int8)


@torch.no_grad()
def reader_of(neuron: Neuron, linears: list[nn.Module], precision: str) -> Reader:
    """A neuron and the linears behind it, merged."""
    weight = torch.cat([weight_of(linear) for linear in linears])
    biases = [linear.bias if linear.bias is not None else weight.new_zeros(n) for linear, n in _outputs(linears)]
    heights = heights_of(neuron) if isinstance(neuron, BiSpike | LIF) else weight.new_ones(1)
    top = neuron.rule.largest if isinstance(neuron, CodedNeuron) and reads_code(neuron, precision) else 1
    outputs, inputs = weight.shape
    if precision == "event":
        linear: SpikeLinear = EventLinear(inputs, outputs, len(heights), top)
    else:
        linear = SpikeLinear(inputs, outputs, len(heights), precision)
    linear.to(weight.device, weight.dtype)
    linear.take(weight, torch.cat(biases), heights.to(weight))
    if isinstance(neuron, BiSpike | LIF):
        return ThresholdReader(neuron, linear).to(weight.device, weight.dtype)
    if reads_code(neuron, precision):
        return CodeReader(neuron, linear)  # type: ignore[arg-type]
    return SpikeReader(neuron, linear)


def weight_of(linear: Any) -> Tensor:
    """(outputs, inputs); GPT-2's Conv1D has it the other way round."""
    weight: Tensor = linear.weight
    return weight if isinstance(linear, nn.Linear) else weight.T


def _outputs(linears: list[nn.Module]) -> list[tuple[Any, int]]:
    return [(linear, len(weight_of(linear))) for linear in linears]


def threshold_of(neuron: BiSpike | LIF) -> Tensor:
    """theta_t (T,): what the membrane is divided by."""
    if isinstance(neuron, LIF):
        return torch.full((neuron.T,), neuron.theta)
    return neuron.alpha.detach().clamp_min(ALPHA_FLOOR) if neuron.learnable else neuron.alpha.detach()


def heights_of(neuron: BiSpike | LIF) -> Tensor:
    """h_t, the size of a spike: one for each step, or (1,) where they are the same by the neuron's kind."""
    if isinstance(neuron, LIF) or not (neuron.elastic or neuron.learnable):
        return torch.ones(1)
    return threshold_of(neuron)
