"""spikify: put neurons into a Hugging Face model, in place, with time folded into the batch.

- T copies of the embedding output enter the encoder as a batch of T*B, time step by time step; what leaves
  it is averaged over T, so pooler and heads see ordinary hidden states.
- Neurons are child modules (`spike_in`, `spike_out`) called by hooks; no parameter changes its name.
- The model's class becomes a subclass whose from_pretrained restores the neurons, amplitudes included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

from spikelm.errors import ConfigError
from spikelm.neurons import Neuron, build_neuron
from spikelm.spiking.sites import Stack, stacks_of

if TYPE_CHECKING:
    _Model = PreTrainedModel
else:
    _Model = object  # mixed in front of a model class, which brings the rest


class Spiking(_Model):
    """Mixed into a Hugging Face model class: its config's `spikelm` entry says which neurons to attach."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        _attach(self, config.spikelm["neuron"], config.spikelm["T"])

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Neuron):
            tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            if not any(getattr(tensor, "_is_hf_initialized", False) for tensor in tensors):
                module.reset_parameters()
        else:
            super()._init_weights(module)


_classes: dict[type, Any] = {}


def spiking_class(cls: type) -> Any:
    """The spiking subclass of a Hugging Face model class: BertModel -> SpikingBertModel."""
    if cls not in _classes:
        body = {"__module__": __name__, "__doc__": f"{cls.__name__} with spiking neurons."}
        made = type(f"Spiking{cls.__name__}", (Spiking, cls), body)
        # transformers keeps by class what output_hidden_states may record, and fills it in __init__,
        # which a model converted in place has already gone through as its plain class.
        _CAN_RECORD_REGISTRY[str(made)] = getattr(cls, "_can_record_outputs", None) or {}
        _classes[cls] = made
    return _classes[cls]


def spikify(model: Any, neuron: Mapping[str, Any], T: int) -> nn.Module:
    """Convert a supported Hugging Face model in place; `neuron` is a config node with a `_target_`."""
    if isinstance(model, Spiking):
        raise ConfigError(f"{type(model).__name__} is spiking already")
    if T < 1:
        raise ConfigError(f"T={T}: the number of time steps is at least 1")
    _attach(model, neuron, T)
    model.config.spikelm = {"neuron": dict(neuron), "T": T}
    model.__class__ = spiking_class(type(model))
    return model


def neurons(model: nn.Module) -> Iterator[Neuron]:
    """The neurons of a model, in the order of its layers."""
    return (module for module in model.modules() if isinstance(module, Neuron))


def _attach(model: Any, spec: Mapping[str, Any], T: int) -> None:
    base = model.base_model
    arguments = {**spec, "T": T}
    for stack in stacks_of(model):
        for index, block in enumerate(base.get_submodule(f"{stack.path}.{stack.blocks}")):
            for site in stack.sites:
                host = block.get_submodule(site.path)
                neuron = build_neuron(arguments, memory=site.memory)
                neuron.site = f"{stack.path}.{stack.blocks}.{index}.{site.name}"
                if site.at == "input":
                    host.spike_in = neuron
                    host.register_forward_pre_hook(_spike_input, with_kwargs=True)
                else:
                    host.spike_out = neuron
                    host.register_forward_hook(_spike_output)
        _fold(base, stack, T)  # last: a neuron that cannot be built must leave the model as it was


# Hooks find their neuron on the module they are called with, never in a closure: copies stay independent.


def _spike_input(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    if args:
        return (_over_time(module.spike_in, args[0]), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": _over_time(module.spike_in, kwargs["hidden_states"])}


def _spike_output(module: Any, args: tuple, output: Tensor) -> Tensor:
    return _over_time(module.spike_out, output)


def _over_time(neuron: Neuron, x: Tensor) -> Tensor:
    return neuron(x.unflatten(0, (neuron.T, -1))).flatten(0, 1)


def _fold(base: Any, stack: Stack, T: int) -> None:
    module = base.get_submodule(stack.path)
    module.time_steps = T
    base.time_steps = T
    module.register_forward_pre_hook(_copy_over_time, with_kwargs=True)
    module.register_forward_hook(_mean_over_time)
    base.register_forward_hook(_mean_recorded)


def _copy_over_time(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    T: int = module.time_steps
    hidden = args[0] if args else kwargs["hidden_states"]
    batch = hidden.shape[0]

    def copies(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dim() and value.shape[0] == batch:
            return value.repeat(T, *[1] * (value.dim() - 1))
        return value

    return tuple(map(copies, args)), {key: copies(value) for key, value in kwargs.items()}


def _mean_over_time(module: Any, args: tuple, output: Any) -> Any:
    output.last_hidden_state = _time_mean(output.last_hidden_state, module.time_steps)
    return output


def _mean_recorded(module: Any, args: tuple, output: Any) -> Any:
    """Hidden states and attention maps recorded on the way still carry T: average them like the last one."""
    T: int = module.time_steps
    batch = output[0].shape[0]

    def means(recorded: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(_time_mean(x, T) if x.shape[0] == T * batch else x for x in recorded)

    if isinstance(output, tuple):  # return_dict=False
        return tuple(means(value) if isinstance(value, tuple) else value for value in output)
    for name in ("hidden_states", "attentions"):
        if output.get(name) is not None:
            output[name] = means(output[name])
    return output


def _time_mean(x: Tensor, T: int) -> Tensor:
    return x.unflatten(0, (T, -1)).mean(0) if T > 1 else x
