"""Time folded into the batch: T copies go in as rows t*B + b, what comes out is averaged over T.

Between encoder and decoder the time steps are kept, because the decoder at step t attends to the encoder at step t:
the encoder's last hidden state is (B, n, T, d), with B first, so that generate() can repeat rows for its beams, and n
second, where transformers reads the source length for the mask. With T = 1 it is the usual (B, n, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spikelm.errors import SpikeLMError
from spikelm.neurons import Neuron
from spikelm.spiking.sites import Stack


def over_time(neuron: Neuron, x: Tensor) -> Tensor:
    """Spikes of x (T*B, ...), the neuron seeing (T, B, ...)."""
    return neuron(x.unflatten(0, (neuron.T, -1))).flatten(0, 1)


@dataclass(frozen=True)
class Origin:
    """Where spikes come from: their neuron, and the steps of their whole numbers where it codes them (`coding`)."""

    neuron: Neuron
    coding: tuple[Tensor, torch.dtype] | None


def marked_spikes(neuron: Neuron, x: Tensor) -> Tensor:
    """Spikes of x (T*B, ...) that carry their origin, as do their views: whoever packs them need not look at them."""
    steps = x.unflatten(0, (neuron.T, -1))
    spikes = neuron(steps)
    _root(spikes).origin = Origin(neuron, neuron.coding(steps))  # type: ignore[attr-defined]
    return spikes.flatten(0, 1)


def marked_part(neuron: Neuron, x: Tensor, index: int, count: int) -> Tensor:
    """x (..., count * d) with spikes in place of the i-th part of its last axis; they carry their origin, too."""
    parts = list(x.chunk(count, dim=-1))
    spikes = marked_spikes(neuron, parts[index])
    parts[index] = spikes
    joined = torch.cat(parts, dim=-1)
    known = {**getattr(x, "part_origins", {}), index: origin_of(spikes)}
    joined.part_origins, joined.parts = known, count  # type: ignore[attr-defined]
    return joined


def origin_of(x: Tensor) -> Origin | None:
    """The origin that spikes, or a view of them, are marked with; None for any other tensor."""
    root: Any = _root(x)
    known: dict[int, Origin | None] | None = getattr(root, "part_origins", None)
    if known is not None:  # spikes beside other values: the first channel of a view tells which
        return known.get(x.storage_offset() % root.shape[-1] // (root.shape[-1] // root.parts))
    origin: Origin | None = getattr(root, "origin", None)
    return origin


def _root(x: Tensor) -> Tensor:
    return x if x._base is None else x._base


def fold(base: Any, stack: Stack, T: int, aligned: bool) -> None:
    """Put the hooks around a stack that copy over time on the way in and average on the way out."""
    module = base.get_submodule(stack.path)
    module.time_steps = T
    base.time_steps = T
    module.keeps_time = stack.read and aligned
    if stack.entry is None:
        module.register_forward_pre_hook(_copy_arguments, with_kwargs=True)
    else:
        entry = module.get_submodule(stack.entry)
        entry.time_steps = T
        if stack.enters_blocks:
            entry.register_forward_pre_hook(_copy_hidden, with_kwargs=True)
        else:
            entry.register_forward_hook(_copy_output)
    module.register_forward_hook(_leave_time)
    base.register_forward_hook(_mean_recorded)


def spread(value: Any, rows: int, T: int) -> Any:
    """A mask of B rows for hidden states of T*B `rows`; one that fits already (or broadcasts) stays."""
    if isinstance(value, Tensor) and T > 1 and value.shape[0] * T == rows:
        return value.repeat(T, *[1] * (value.dim() - 1))
    return value


def source_steps(states: Tensor, T: int, aligned: bool) -> Tensor:
    """The encoder's states as the decoder's rows, (T*B, n, d): each step's own, or the mean for every step."""
    if T == 1:
        return states
    if not aligned:
        return states.repeat(T, 1, 1)
    if states.dim() != 4 or states.shape[2] != T:
        raise SpikeLMError(
            f"encoder states of shape {tuple(states.shape)} do not hold the {T} time steps that the decoder attends to",
            "pass on what the spiking encoder returned, or spikify with cross='mean'",
        )
    return states.permute(2, 0, 1, 3).flatten(0, 1)  # no copy unless rows were repeated on the way


def _copy_arguments(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    T: int = module.time_steps
    if T == 1:
        return args, kwargs
    hidden = args[0] if args else kwargs["hidden_states"]
    batch = hidden.shape[0]

    def copies(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dim() and value.shape[0] == batch:
            return value.repeat(T, *[1] * (value.dim() - 1))
        return value

    return tuple(map(copies, args)), {key: copies(value) for key, value in kwargs.items()}


def _copy_hidden(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Hidden states alone: masks and positions are spread where they are used, in each attention."""
    T: int = module.time_steps
    if T == 1:
        return args, kwargs
    if args:
        return (args[0].repeat(T, 1, 1), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": kwargs["hidden_states"].repeat(T, 1, 1)}


def _copy_output(module: Any, args: tuple, output: Tensor) -> Tensor:
    return output if module.time_steps == 1 else output.repeat(module.time_steps, 1, 1)


def _leave_time(module: Any, args: tuple, output: Any) -> Any:
    T: int = module.time_steps
    last = output[0]
    if T > 1:
        steps = last.unflatten(0, (T, -1))
        last = steps.permute(1, 2, 0, 3) if module.keeps_time else steps.mean(0)
    if isinstance(output, tuple):  # return_dict=False
        output = (last, *output[1:])
    else:
        output.last_hidden_state = last
    return _mean_recorded(module, args, output)


def _mean_recorded(module: Any, args: tuple, output: Any) -> Any:
    """Hidden states and attention maps recorded on the way still carry T: average them like the last one."""
    T: int = module.time_steps
    batch = output[0].shape[0]

    def public(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(_time_mean(x, T) if x is not None and x.shape[0] == T * batch else x for x in value)
        # A whole model averages what it returns of its encoder; only the encoder itself hands on its steps.
        return value.mean(2) if isinstance(value, Tensor) and value.dim() == 4 else value

    if T == 1:
        return output
    if isinstance(output, tuple):
        return (output[0], *map(public, output[1:]))
    for name in list(output)[1:]:
        output[name] = public(output[name])
    return output


def _time_mean(x: Tensor, T: int) -> Tensor:
    return x.unflatten(0, (T, -1)).mean(0)
