"""Look at a tensor to tell whether it holds spikes, or a sum of spikes: at the numbers alone, whoever made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from spikelm.neurons import Neuron
from spikelm.neurons.unfolding.coded import CodedNeuron

#: a_t * s is exact in any float format; this forgives a rescaling on the way (SDPA may split its 1/sqrt(d))
_TOLERANCE = 1e-6
_ANY = 1 << 20  # more levels than a neuron has that says how many


@dataclass(frozen=True)
class Code:
    """What a tensor is that unfolds into spikes."""

    rate: float  # spikes per value
    virtual_steps: int
    levels: int  # values that the spikes of one time step can add up to


def spike_rate(x: Tensor, T: int) -> float | None:
    """Share of non-zero values of a tensor (T*B, ...) that holds {-a_t, 0, a_t} only; None for any other."""
    steps = T if x.dim() and x.shape[0] % T == 0 else 1
    values = x.reshape(steps, -1)
    if values.shape[1] <= 2:  # too few values to tell a level from a coincidence
        return None
    size = values.abs()
    high, low = size.amax(1), size.masked_fill(size == 0, torch.inf).amin(1)
    one_level = torch.isfinite(high) & (high <= low * (1 + _TOLERANCE))
    constant = (values.amax(1) == values.amin(1)) & (high > 0)  # one value everywhere says nothing
    return float((values != 0).double().mean()) if one_level.all() and not constant.all() else None


def sum_rate(x: Tensor, most: int) -> float | None:
    """Spikes per value of a tensor that adds up to `most` spikes: whole numbers from 0 on; None for any other.

    W (s_1 + s_2 + ...) is W s_1 + W s_2 + ...: additions only, as many as there are spikes.
    """
    if most < 2 or not x.is_floating_point() or x.numel() <= 2 or bool((x == x.flatten()[0]).all()):
        return None
    whole = (x >= 0) & (x <= most) & (x == x.round())
    return float(x.double().mean()) if bool(whole.all()) else None


@dataclass(frozen=True)
class Unfolding:
    """What was seen of the virtual steps of a neuron's output."""

    virtual_steps: int
    events: int
    signed: bool  # some spikes are negative
    alike: bool  # all virtual steps are of one height
    rate: float | None  # spikes a value; None if the steps are no spikes, or do not add up to the output


def look_at_steps(parts: Iterable[Tensor], output: Tensor, per_token: bool) -> Unfolding:
    """Look at the virtual steps (V, T, ...) of an output (T, ...), some at a time.

    Each must hold {-a, 0, a} only, a for each time step (or token, where the neuron says so), and they must add up to
    the output.
    """
    total, events, many = torch.zeros_like(output), output.new_zeros((), dtype=torch.long), 0
    one_height, signed = output.new_ones((), dtype=torch.bool), output.new_zeros((), dtype=torch.bool)
    fits, heights = True, []
    for steps in parts:
        size = steps.abs() if per_token else steps.abs().flatten(2)
        high = size.amax(-1, keepdim=True)
        one_height &= torch.isfinite(high).all() & ((size == 0) | (size >= high * (1 - _TOLERANCE))).all()
        signed |= (steps < 0).any()
        events += (steps != 0).sum()
        heights.append(steps.abs().flatten(1).amax(1))
        many += len(steps)
        fits = steps.shape[1:] == output.shape
        if not fits:
            break
        total = total + steps.sum(0)
    spikes = fits and bool(one_height) and _equal(total, output, many)
    fired = torch.cat(heights)
    fired = fired[fired > 0]
    alike = not len(fired) or bool(fired.amax() <= fired.amin() * (1 + 1e-3))
    rate = int(events) / output.numel() if spikes else None
    return Unfolding(many, int(events), bool(signed), alike, rate)


def _equal(total: Tensor, output: Tensor, many: int) -> bool:
    """But for the rounding of a sum of so many."""
    largest = output.abs().amax().clamp_min(torch.finfo(output.dtype).tiny)
    return bool((total - output).abs().amax() <= 4 * torch.finfo(output.dtype).eps * largest * many)


def levels_of(neuron: Neuron, seen: Unfolding) -> int:
    """Values that the spikes of one time step can add up to: as the neuron says, else by what each step can add.

    Virtual steps of equal heights add up to as many levels as there are steps; those of different heights multiply.
    """
    rule = neuron.rule if isinstance(neuron, CodedNeuron) else None
    if rule is not None and rule.high < _ANY:
        return rule.high - rule.low + 1
    sides = 2 if seen.signed else 1
    return sides * seen.virtual_steps + 1 if seen.alike else (sides + 1) ** seen.virtual_steps
