"""spikify: put neurons into a Hugging Face model, in place, with time folded into the batch.

- T copies of the embedding output enter the blocks as a batch of T*B, time step by time step; what leaves
  them is averaged over T, so pooler and heads see ordinary hidden states (folding.py).
- Neurons are child modules (`spike_in`, `spike_out`) called by hooks; no parameter changes its name.
- Keys and values are spikes before they are cached, and generate() caches them as such (kv_cache.py).
- The model's class becomes a subclass whose from_pretrained restores the neurons, amplitudes included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache, PreTrainedModel
from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

from spikelm.config.check_specs import check_arguments, check_operator
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import AttentionSpec, ClassSpec, NormSpec, QuantizerSpec
from spikelm.errors import CheckpointError, ConfigError
from spikelm.neurons import Neuron, build_neuron
from spikelm.operators import Operator
from spikelm.spiking.conversion import Conversion, conversion_of
from spikelm.spiking.folding import fold, marked_part, marked_spikes, over_time, source_steps, spread
from spikelm.spiking.kv_cache import SpikedKeys, prepare_cache, spike_cache
from spikelm.spiking.operands import await_operand, refuse_operands
from spikelm.spiking.operators import refuse_operators, replace_operators
from spikelm.spiking.rotation import Rotation, attach_rotations, refuse_rotation, rotate_weights
from spikelm.spiking.saved.dropout import keep_bits
from spikelm.spiking.saved.linear import keep_spikes
from spikelm.spiking.saved.sdpa import NAME as TURNS_QUERIES
from spikelm.spiking.saved.sdpa import keep_less
from spikelm.spiking.sites import HIDDEN, Site, features, readers, stacks_of
from spikelm.spiking.variants import POOLER, alter, linears_of, sites_of
from spikelm.weights import WeightQuantizer, quantize_weights, quantized

if TYPE_CHECKING:
    _Model = PreTrainedModel
else:
    _Model = object  # mixed in front of a model class, which brings the rest


class Spiking(_Model):
    """Mixed into a Hugging Face model class: its config's `spikelm` entry says which neurons to attach."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        conversion = conversion_of(config)
        if conversion is None:
            raise CheckpointError("this config does not say which neurons the model has", "load the plain class")
        _attach(self, conversion)

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """What is ours comes first: transformers asks the encoder inside a classifier, whose class knows none of it."""
        for module in self.modules():
            if isinstance(module, Neuron | WeightQuantizer | Operator | Rotation):
                self._initialize_weights(module)
        super().initialize_weights()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Neuron | WeightQuantizer | Rotation):
            tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            if not any(getattr(tensor, "_is_hf_initialized", False) for tensor in tensors):
                module.reset_parameters()
        elif isinstance(module, Operator):
            # Its weights may be those of a plain checkpoint, which has no statistics.
            if not any(getattr(buffer, "_is_hf_initialized", False) for buffer in module.buffers(recurse=False)):
                module.reset_parameters()
            for name, value in (("weight", 1.0), ("bias", 0.0)):
                parameter = getattr(module, name, None)
                if parameter is not None and not getattr(parameter, "_is_hf_initialized", False):
                    parameter.fill_(value)
        else:
            super()._init_weights(module)

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict, *args: Any, **kwargs: Any
    ) -> None:
        """generate() calls this to make its cache."""
        if not prepare_cache(self.config, generation_config, model_kwargs):
            super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)  # type: ignore[misc]


_classes: dict[type, Any] = {}


def spiking_class(cls: type) -> Any:
    """The spiking subclass of a Hugging Face model class: BertModel -> SpikingBertModel."""
    if cls not in _classes:
        body = {"__module__": __name__, "__doc__": f"{cls.__name__} with spiking neurons."}
        spiking = type(f"Spiking{cls.__name__}", (Spiking, cls), body)
        # transformers keeps by class what output_hidden_states may record, and fills it in __init__,
        # which a model converted in place has already gone through as its plain class.
        _CAN_RECORD_REGISTRY[str(spiking)] = getattr(cls, "_can_record_outputs", None) or {}
        _classes[cls] = spiking
    return _classes[cls]


def spikify(
    model: Any,
    neuron: str | ClassSpec | None,
    T: int,
    cross: Literal["step", "mean"] = "step",
    weights: QuantizerSpec | None = None,
    variant: VariantConfig | None = None,
    attention: AttentionSpec | None = None,
    norm: NormSpec | None = None,
    rotation: Literal["none", "hadamard"] = "none",
    rotation_seed: int = 0,
    **arguments: Any,
) -> nn.Module:
    """Convert a Hugging Face model in place: neurons at the inputs of its matrix products, T time steps.

    The weights stay as they are and keep their names, so `save_pretrained`, `from_pretrained` and `generate` work as
    before. Neurons with an elastic amplitude need a look at data first: see `calibrate`.

    Args:
        model: A model of transformers, with or without a head: BERT, RoBERTa, BART, mBART, Marian, GPT-2, or
            one of Llama's family (`spikelm/spiking/sites.py` lists them).
        neuron: The name of a neuron as after `neuron=` on the command line ("bispike", "lif", "psn", or one of an
            installed plugin), or a spec, `ClassSpec.of(BiSpike, k=2)`. None leaves activations real, which makes sense
            together with `weights`, `attention` or `norm`.
        T: The number of time steps, at least 1.
        cross: What a decoder attends to at step t: the encoder at the same "step", or its "mean" over time.
        weights: The quantiser of the blocks' linear layers, `QuantizerSpec.of(Binary)`.
        variant: What else a low-bit system changes (`spikelm.config.settings.backbone.VariantConfig`).
        attention: What stands in place of the softmax of the blocks' attention, `AttentionSpec.of(PTSoftmax)`; for BERT
            and RoBERTa.
        norm: What stands in place of the LayerNorms of the blocks, `NormSpec.of(BSPN)`; for BERT and RoBERTa.
        rotation: "hadamard" turns what the neurons read, so that no single value of a token is much larger than the
            others, and folds the inverse into the weights (`spikelm/spiking/rotation.py`).
        rotation_seed: Of the signs of the rotation.
        **arguments: Arguments of the neuron, checked as on the command line.

    Returns:
        The same model. Its class is now a subclass of what it was: `BertModel` becomes `SpikingBertModel`.

    Raises:
        ConfigError: If the neuron or one of its arguments is unknown or not valid, or if the model is of no known
            architecture or spiking already. The model is left as it was.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> from spikelm.spiking import calibrate, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        >>> model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
        >>> model = spikify(model, "bispike", k=2, T=4)
        >>> batch = {"input_ids": torch.randint(100, (8, 16))}
        >>> model = calibrate(model, batch)
        >>> model(**batch).logits.shape
        torch.Size([8, 2])
        >>> spikify(BertForSequenceClassification(model.config), "bispike", k=-1, T=4)
        Traceback (most recent call last):
            ...
        spikelm.errors.ConfigError: bispike.k=-1 is not valid; valid: a number above 0
    """
    if isinstance(model, Spiking):
        raise ConfigError(f"{type(model).__name__} is spiking already")
    if T < 1:
        raise ConfigError(f"T={T}: the number of time steps is at least 1")
    if cross not in ("step", "mean"):
        raise ConfigError(f"cross={cross!r}: the encoder is attended to by step or by its mean", "cross=step")
    conversion = Conversion(
        T=T,
        neuron=_checked(neuron, arguments),
        weights=weights or QuantizerSpec(),
        variant=variant or VariantConfig(),
        cross=cross,
        attention=attention or AttentionSpec(),
        norm=norm or NormSpec(),
        rotation=rotation,
    )
    for group, spec in (("attention", conversion.attention), ("norm", conversion.norm)):
        check_operator(spec, group)
    _attach(model, conversion)
    if rotation != "none":
        rotate_weights(model, rotation_seed)
    for module in quantized(model):
        module.quantizer.start(module.weight)
    conversion.record_in(model.config)
    model.__class__ = spiking_class(type(model))
    return model


def _checked(neuron: str | ClassSpec | None, arguments: Mapping[str, Any]) -> ClassSpec:
    """The class and arguments of a neuron, by name or by spec; those that the class refuses are refused here."""
    if isinstance(neuron, str):
        from spikelm.config.compose import load_neuron  # Hydra is loaded for names alone

        named = load_neuron(neuron, **arguments)
        return ClassSpec(named.target, named.arguments)
    spec = ClassSpec(neuron.target, {**neuron.arguments, **arguments}) if neuron else ClassSpec("", dict(arguments))
    check_arguments(spec, spec.target.rpartition(".")[2] or "neuron")
    return spec


def neurons(model: nn.Module) -> Iterator[Neuron]:
    """The neurons of a spiking model, in the order of its layers.

    Each has `site`, the place where it sits ("encoder.layer.0.key_out"), and `T`; one with an amplitude has `alpha`, a
    tensor of T values.

    Args:
        model: A model that `spikify` converted.

    Examples:
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.spiking import neurons, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> model = spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "lif", T=4)
        >>> [neuron.site for neuron in neurons(model)][:2]
        ['encoder.layer.0.key_out', 'encoder.layer.0.value_out']
    """
    return (module for module in model.modules() if isinstance(module, Neuron))


def _attach(model: Any, conversion: Conversion) -> None:
    """Give a model the neurons, quantisers and changes of its conversion."""
    stacks, base = stacks_of(model), model.base_model
    for stack in stacks:
        try:
            base.get_submodule(stack.prefix)
        except AttributeError as error:
            raise ConfigError(f"{type(model).__name__} has no {stack.prefix}", "convert the whole model") from error
    if conversion.neuron:
        # one that cannot be built must leave the model as it was
        refuse_operands(model, conversion, build_neuron(conversion.neuron, conversion.T))
    refuse_operators(model, conversion)
    if conversion.rotation != "none":
        _check_rotation(model, conversion)
        attach_rotations(model)
    if conversion.variant != VariantConfig():
        alter(model, conversion)
    if conversion.attention or conversion.norm:
        replace_operators(model, conversion)
    if conversion.weights:
        quantize_weights(model, conversion.weights, list(linears_of(model, stacks, conversion.variant)))
    if conversion.neuron:
        _attach_neurons(model, conversion)


def _check_rotation(model: Any, conversion: Conversion) -> None:
    if not conversion.neuron:
        raise ConfigError("a rotation stands in front of neurons, and there are none", "rotation=none, or a neuron")
    if conversion.variant != VariantConfig():
        raise ConfigError("a rotation does not go together with a variant of the attention", "rotation=none")
    refuse_rotation(model)


def _attach_neurons(model: Any, conversion: Conversion) -> None:
    base, T, aligned = model.base_model, conversion.T, conversion.cross == "step"
    for stack in stacks_of(model):
        for index, block in enumerate(base.get_submodule(stack.prefix)):
            for site in sites_of(stack, conversion.variant):
                neuron = build_neuron(_scaled(conversion.neuron, site, model.config), T, site.memory)
                neuron.site = f"{stack.prefix}.{index}.{site.name}"
                _attach_neuron(block, site, neuron, aligned)
        keep_spikes(base.get_submodule(stack.prefix))
        keep_bits(base.get_submodule(stack.prefix))
        fold(base, stack, T, aligned)
        if stack.cached:
            base.get_submodule(stack.path).register_forward_pre_hook(_give_cache, with_kwargs=True)
    keep_less(model)
    if conversion.variant.pooler and base.pooler is not None:
        neuron = build_neuron(conversion.neuron, 1, POOLER.memory)  # after the mean over time
        neuron.site = POOLER.name
        _attach_neuron(base, POOLER, neuron, aligned)


def _attach_neuron(block: Any, site: Site, neuron: Neuron, aligned: bool) -> None:
    host = block.get_submodule(site.path)
    neuron.fit_to(features(host, site))
    neuron.read_by(readers(block, site))
    host.add_module(site.child, neuron)
    await_operand(block, site, neuron)
    # Hooks find their neuron on the module they are called with: copies of a model stay independent.
    if site.at == "cache":
        host.register_forward_pre_hook(partial(_spike_cached, site), with_kwargs=True)
    elif site.source and site.at == "input":
        host.aligned = aligned
        host.register_forward_pre_hook(partial(_spike_source, site), with_kwargs=True)
    elif site.at == "input":
        host.register_forward_pre_hook(partial(_spike_input, site), with_kwargs=True)
    else:
        host.register_forward_hook(partial(_spike_output, site))


def _scaled(neuron: ClassSpec, site: Site, config: Any) -> ClassSpec:
    """The neuron with the threshold that its site asks for; elastic neurons have none to scale."""
    if not site.threshold or "theta" not in neuron.arguments:
        return neuron
    return neuron.having(theta=neuron.arguments["theta"] * getattr(config, site.threshold))


def _spike_input(site: Site, module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    neuron = module.get_submodule(site.child)
    hidden = over_time(neuron, _turned(module, site, args[0] if args else kwargs[HIDDEN]))
    if kwargs.get("attention_mask") is not None:
        kwargs = {**kwargs, "attention_mask": spread(kwargs["attention_mask"], hidden.shape[0], neuron.T)}
    if (rotary := kwargs.get("position_embeddings")) is not None:
        kwargs = {**kwargs, "position_embeddings": tuple(spread(part, hidden.shape[0], neuron.T) for part in rotary)}
    return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, HIDDEN: hidden})


def _spike_cached(site: Site, module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Keys are spiked on their way into the cache, or into the attention where nothing is cached."""
    turn: Rotation | None = getattr(module, site.turn, None)
    if turn is not None and module.config._attn_implementation != TURNS_QUERIES:
        raise ConfigError(
            f"rotated keys meet rotated queries in torch's attention only, not in {module.config._attn_implementation}",
            'load the model with attn_implementation="sdpa", or rotation=none',
        )
    door = SpikedKeys(module.get_submodule(site.child), kwargs.get("past_key_values"), turn)
    return args, {**kwargs, "past_key_values": door}


def _spike_source(site: Site, module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    states, cache = kwargs.get(site.argument), kwargs.get("past_key_values")
    if states is None or (isinstance(cache, EncoderDecoderCache) and cache.is_updated.get(module.layer_idx)):
        return args, kwargs  # keys and values of the source are in the cache; its states are not looked at again
    neuron = module.get_submodule(site.child)
    states = _turned(module, site, source_steps(states, neuron.T, module.aligned))
    return args, {**kwargs, site.argument: over_time(neuron, states)}


def _turned(module: Any, site: Site, x: Tensor) -> Tensor:
    """What a neuron reads: x, or x behind the rotation that stands in front of it."""
    turn: Rotation | None = getattr(module, site.turn, None)
    return x if turn is None else turn(x)


def _spike_output(site: Site, module: Any, args: tuple, output: Tensor) -> Tensor:
    neuron = module.get_submodule(site.child)
    if site.part is None:
        return over_time(neuron, output) if torch.is_grad_enabled() else marked_spikes(neuron, output)  # may be cached
    index, count = site.part
    if not torch.is_grad_enabled():
        return marked_part(neuron, output, index, count)
    parts = list(output.chunk(count, dim=-1))
    parts[index] = over_time(neuron, parts[index])
    return torch.cat(parts, dim=-1)


def _give_cache(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """A decoder that would make a cache of floats gets one of spikes; training keeps nothing and needs none."""
    wanted = kwargs.get("use_cache")
    wanted = module.config.use_cache if wanted is None else wanted
    if wanted and len(args) <= 1 and kwargs.get("past_key_values") is None and not torch.is_grad_enabled():
        kwargs = {**kwargs, "past_key_values": spike_cache(module.config, module.time_steps)}
    return args, kwargs
