"""From a trained spiking BERT classifier to its exported form, and why some have none."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from spikelm.errors import ConfigError
from spikelm.export.exported_model import (
    INPUTS,
    Coding,
    ExportedBertConfig,
    ExportedBertForSequenceClassification,
    ExportedLayer,
)
from spikelm.neurons import Neuron
from spikelm.neurons.amplitude import ALPHA_FLOOR
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.lif import LIF
from spikelm.neurons.unfolding.coded import CodedNeuron
from spikelm.neurons.unfolding.dynamic import Dynamic
from spikelm.spiking import neurons
from spikelm.spiking.conversion import ENTRY, conversion_of
from spikelm.spiking.sites import ARCHITECTURES, BERT
from spikelm.spiking.variants import changes_of

#: of a config: what an exported model has no use for
LEFT_OUT = (ENTRY, "architectures", "model_type", "transformers_version", "dtype", "_name_or_path")


def refuse(model: Any, precision: str = "fp32") -> None:
    """Raise where a model cannot be exported, and say why."""
    config = model.config
    conversion = conversion_of(config)
    kind = type(model).__name__
    if ARCHITECTURES.get(config.model_type) != (BERT,) or not kind.endswith("ForSequenceClassification"):
        raise ConfigError(
            f"{kind} cannot be exported: only classifiers made of BERT or of an encoder built like it can",
            "a run of task=glue/...",
        )
    if conversion and conversion.weights:
        raise ConfigError("low-bit weights cannot be exported: they are merged with no amplitude", "weights=none")
    if not (conversion and conversion.neuron):
        raise ConfigError(
            "this is a plain model: there are no spikes to export", "transformers loads it as it is: RUN/model"
        )
    if conversion.rotation != "none":
        raise ConfigError("a rotated model cannot be exported: its rotation is no part of it", "convert.rotation=none")
    if changes := changes_of(conversion.variant):
        raise ConfigError(f"variant.{changes[0]} cannot be exported", "a run without variant")
    for group, spec in (("attention", conversion.attention), ("norm", conversion.norm)):
        if spec:
            raise ConfigError(f"{group}={spec.name} cannot be exported", "a run with attention=softmax norm=layernorm")
    for neuron in neurons(model):
        if isinstance(neuron, CodedNeuron) and neuron.whole:
            _refuse_code(neuron, precision)
        elif not isinstance(neuron, BiSpike | LIF):
            raise ConfigError(
                f"{type(neuron).__name__} cannot be exported as it is set here",
                "neuron=bispike, neuron=lif, or a code of whole numbers such as neuron=residual",
            )
        if isinstance(neuron, BiSpike | CodedNeuron) and not neuron.ready:
            raise ConfigError(f"the spike amplitudes of {neuron.site} were never set", "train the model first")


def _refuse_code(neuron: CodedNeuron, precision: str) -> None:
    """Whole numbers have to fit a byte to be multiplied as such."""
    if precision != "fp32" and neuron.rule.dtype != torch.int8:
        count = "no bound" if isinstance(neuron, Dynamic) else f"{neuron.rule.high - neuron.rule.low + 1} levels"
        raise ConfigError(
            f"the numbers of {type(neuron).__name__} at {neuron.site} have {count}: a byte holds 255 of them at most",
            "precision=fp32, or fewer levels",
        )


@torch.no_grad()
def export(model: Any, precision: str = "fp32", exact_layers: int = 0) -> ExportedBertForSequenceClassification:
    """The exported form of a trained model, in its floating-point type; so many of its first layers stay in fp32."""
    refuse(model, precision)
    if not 0 <= exact_layers <= model.config.num_hidden_layers:
        raise ConfigError(f"exact_layers={exact_layers}", f"0 to {model.config.num_hidden_layers}, the model's layers")
    first: Any = next(neuron for neuron in neurons(model) if neuron.memory)
    coded = isinstance(first, CodedNeuron)
    uniform = coded or all(bool((_height(neuron) == _height(neuron)[0]).all()) for neuron in neurons(model))
    saved = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    conversion = conversion_of(model.config)
    assert conversion is not None, "refused above"
    config = ExportedBertConfig(
        **saved,
        plain=type(model).__name__.removeprefix("Spiking"),
        time_steps=first.T,
        heights=1 if uniform else first.T,
        rule=None if coded else asdict(first.rule),
        code=asdict(conversion.neuron) if coded else None,
        precision=precision,
        exact_layers=exact_layers,
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
        getattr(fire, f"threshold_{site}").copy_(_threshold(neuron).view(-1, 1, 1))
        heights[site] = _height(neuron)[:1] if uniform else _height(neuron)
    width = fire.threshold_kv.shape[-1] // 2
    for name, value_of in (("threshold_kv", _threshold), ("height_kv", _height)):
        columns = [value_of(neuron)[:, None].expand(-1, width) for neuron in stored.values()]
        getattr(fire, name).copy_(torch.cat(columns, dim=1).unsqueeze(1))
    return heights


def _threshold(neuron: Neuron) -> Tensor:
    """theta_t (T,): what the membrane is divided by."""
    if isinstance(neuron, BiSpike):
        return neuron.alpha.detach().clamp_min(ALPHA_FLOOR) if neuron.learnable else neuron.alpha.detach()
    if isinstance(neuron, LIF):
        return torch.full((neuron.T,), neuron.theta)
    raise TypeError(type(neuron).__name__)


def _height(neuron: Neuron) -> Tensor:
    """h_t (T,): the size of a spike."""
    return torch.ones(neuron.T) if isinstance(neuron, LIF) else _threshold(neuron)
