"""From a trained spiking model to its exported form, and why some have none.

A BERT classifier takes a block of its own where that knows all that is in it; every other model is merged in place.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.export.exported_model import (
    INPUTS,
    Coding,
    ExportedBertConfig,
    ExportedBertForSequenceClassification,
    ExportedLayer,
)
from spikelm.export.head import head_of
from spikelm.export.linears import int8_weights
from spikelm.export.merged_model import Export, Merged, layers_of, merge, merged_class, merged_classes, merged_linears
from spikelm.export.readers import reads_code, threshold_of, weight_of
from spikelm.neurons import Neuron
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.lif import LIF
from spikelm.neurons.unfolding.coded import CodedNeuron
from spikelm.spiking import Spiking, neurons
from spikelm.spiking.conversion import ENTRY, Conversion, conversion_of
from spikelm.spiking.sites import BERT, stacks_of
from spikelm.weights import quantized
from spikelm.weights.layers import QuantizedEmbedding

#: of a config: what the block has no use for
LEFT_OUT = (ENTRY, "architectures", "model_type", "transformers_version", "dtype", "_name_or_path")


def refuse(model: Any) -> Conversion:
    """The conversion of a model that can be exported; raise where it cannot, and say why."""
    conversion = conversion_of(model.config)
    if isinstance(model, Merged):
        raise ConfigError("this model is exported already", "export the trained one")
    if not (conversion and conversion.neuron):
        raise ConfigError(
            "this is a plain model: there are no spikes to export", "transformers loads it as it is: RUN/model"
        )
    if merged_class(plain_class(model)) not in merged_classes():
        raise ConfigError(
            f"{type(model).__name__} cannot be exported: no Auto class of transformers would load it",
            "a BERT or RoBERTa of task=glue/..., a decoder of task=lm/..., a BART, mBART or Marian of task=sum/... "
            "or task=mt/...",
        )
    for neuron in neurons(model):
        if isinstance(neuron, AmplitudeNeuron) and not neuron.ready:
            raise ConfigError(f"the spike amplitudes of {neuron.site} were never set", "train the model first")
    return conversion


def plain_class(model: Spiking) -> type:
    """The class of transformers that a spiking model was converted from."""
    return next(cls for cls in type(model).__mro__ if not issubclass(cls, Spiking))


@torch.no_grad()
def export(model: Any, precision: str = "fp32", exact_layers: int = 0, int8_head: bool = False) -> Any:
    """The exported form of a trained model, in its floating-point type.

    So many of its first layers stay in fp32; the LM head stays so unless `int8_head` rounds it, too.
    """
    conversion = refuse(model)
    if not 0 <= exact_layers <= layers_of(model):
        raise ConfigError(f"exact_layers={exact_layers}", f"0 to {layers_of(model)}, the model's layers")
    if int8_head:
        if precision == "fp32":
            raise ConfigError("an int8 head goes with linears of int8", "precision=int8 or precision=event")
        head_of(model)
    settings = Export(precision, exact_layers, int8_head)
    if fits_block(model, conversion, precision):
        return in_blocks(model, conversion, settings)
    return merged_form(model, conversion, settings)


@torch.no_grad()
def merged_form(model: Any, conversion: Conversion, settings: Export) -> Merged:
    """Any model, with each neuron and the linears behind it merged."""
    merged = copy.deepcopy(model).eval()
    bake_weights(merged)
    merged.__class__ = merged_class(plain_class(model))
    merged.config.__class__ = merged.config_class
    replace(conversion, weights=QuantizerSpec()).record_in(merged.config)
    settings.record_in(merged.config)
    merge(merged, settings)
    made: Merged = merged
    return made


def bake_weights(model: nn.Module) -> None:
    """Put Q(W) in the place of W where weights are quantised, in place."""
    for module in list(quantized(model)):
        plain: Any = nn.Embedding if isinstance(module, QuantizedEmbedding) else nn.Linear
        module.weight = nn.Parameter(module.quantizer(module.weight), requires_grad=False)
        module.__class__ = plain
        del module.quantizer


@torch.no_grad()
def round_weights(model: Any, exact_layers: int = 0) -> None:
    """Round the weights of a trained model as int8 has them, in place: then its export in int8 gives what it gives."""
    bake_weights(model)
    for linear in merged_linears(model, exact_layers):
        weight = weight_of(linear)
        whole, scale = int8_weights(weight)
        weight.copy_(whole * scale[:, None])


def fits_block(model: Any, conversion: Conversion, precision: str) -> bool:
    """Whether the block of exported_model.py knows all that a model has."""
    changed = conversion.variant != VariantConfig() or conversion.rotation != "none"
    if stacks_of(model) != (BERT,) or changed or conversion.attention or conversion.norm:
        return False
    return all(isinstance(neuron, BiSpike | LIF) or reads_code(neuron, precision) for neuron in neurons(model))


def in_blocks(model: Any, conversion: Conversion, settings: Export) -> ExportedBertForSequenceClassification:
    """A BERT classifier in the block of exported_model.py."""
    if conversion.weights:
        model = copy.deepcopy(model)
        bake_weights(model)
    first: Any = next(neuron for neuron in neurons(model) if neuron.memory)
    coded = isinstance(first, CodedNeuron)
    uniform = coded or all(bool((_height(neuron) == _height(neuron)[0]).all()) for neuron in neurons(model))
    saved = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    config = ExportedBertConfig(
        **saved,
        plain=type(model).__name__.removeprefix("Spiking"),
        time_steps=first.T,
        heights=1 if uniform else first.T,
        rule=None if coded else asdict(first.rule),
        code=asdict(conversion.neuron) if coded else None,
        precision=settings.precision,
        exact_layers=settings.exact_layers,
    )
    exported = ExportedBertForSequenceClassification(config).to(model.dtype).eval()
    base = model.base_model
    exported.embeddings.load_state_dict(base.embeddings.state_dict())
    if exported.pooler is not None:
        exported.pooler.load_state_dict(base.pooler.state_dict())
    exported.classifier.load_state_dict(model.classifier.state_dict())
    for ours, theirs in zip(exported.layers, base.get_submodule(BERT.prefix), strict=True):
        _fill(ours, theirs, uniform)  # type: ignore[arg-type]
    return exported


def _fill(ours: ExportedLayer, theirs: Any, uniform: bool) -> None:
    attention = theirs.attention.self
    readers = (attention, theirs.attention.output.dense, theirs.intermediate.dense, theirs.output.dense)
    hosts = dict(zip(INPUTS, readers, strict=True))
    stored = {"key": attention.key.spike_out, "value": attention.value.spike_out}
    if isinstance(ours.fire, Coding):
        for site, neuron in {**{site: host.spike_in for site, host in hosts.items()}, **stored}.items():
            ours.fire.neurons[site].load_state_dict(neuron.state_dict())
        one = attention.query.weight.new_ones(1)
        heights = dict.fromkeys(hosts, one)  # the steps multiply what comes out
    else:
        heights = _fill_thresholds(ours.fire, {site: host.spike_in for site, host in hosts.items()}, stored, uniform)
    parts = (attention.query, attention.key, attention.value)
    ours.qkv.take(torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts]), heights["qkv_in"])
    for linear, site in (
        (ours.attention_output, "attn_out_in"),
        (ours.intermediate, "ffn1_in"),
        (ours.output, "ffn2_in"),
    ):
        linear.take(hosts[site].weight, hosts[site].bias, heights[site])
    ours.attention_norm.load_state_dict(theirs.attention.output.LayerNorm.state_dict())
    ours.output_norm.load_state_dict(theirs.output.LayerNorm.state_dict())


def _fill_thresholds(fire: Any, inputs: dict[str, Any], stored: dict[str, Any], uniform: bool) -> dict[str, Tensor]:
    """Set the thresholds of the clip family; the heights of the spikes that each linear reads."""
    heights = {}
    for site, neuron in inputs.items():
        getattr(fire, f"threshold_{site}").copy_(threshold_of(neuron).view(-1, 1, 1))
        heights[site] = _height(neuron)[:1] if uniform else _height(neuron)
    width = fire.threshold_kv.shape[-1] // 2
    for name, value_of in (("threshold_kv", threshold_of), ("height_kv", _height)):
        columns = [value_of(neuron)[:, None].expand(-1, width) for neuron in stored.values()]
        getattr(fire, name).copy_(torch.cat(columns, dim=1).unsqueeze(1))
    return heights


def _height(neuron: Neuron) -> Tensor:
    """h_t (T,): the size of a spike."""
    return torch.ones(neuron.T) if isinstance(neuron, LIF) else threshold_of(neuron)  # type: ignore[arg-type]
