"""From a trained spiking BERT classifier to its exported form, and why some have none."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from spikelm.errors import ConfigError
from spikelm.export.exported_model import (
    INPUTS,
    ExportedBertConfig,
    ExportedBertForSequenceClassification,
    ExportedLayer,
)
from spikelm.neurons import Neuron
from spikelm.neurons.amplitude import ALPHA_FLOOR
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.lif import LIF
from spikelm.spiking import neurons
from spikelm.spiking.conversion import ENTRY, conversion_of
from spikelm.spiking.sites import ARCHITECTURES, BERT
from spikelm.spiking.variants import changes_of

#: of a config: what an exported model has no use for
LEFT_OUT = (ENTRY, "architectures", "model_type", "transformers_version", "dtype", "_name_or_path")


def refuse(model: Any) -> None:
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
    if changes := changes_of(conversion.variant):
        raise ConfigError(f"variant.{changes[0]} cannot be exported", "a run without variant")
    for neuron in neurons(model):
        if not isinstance(neuron, BiSpike | LIF):
            raise ConfigError(f"{type(neuron).__name__} cannot be exported", "neuron=bispike or neuron=lif")
        if isinstance(neuron, BiSpike) and not neuron.ready:
            raise ConfigError(f"the spike amplitudes of {neuron.site} were never set", "train the model first")


@torch.no_grad()
def export(model: Any, precision: str = "fp32") -> ExportedBertForSequenceClassification:
    """The exported form of a trained model, in its floating-point type."""
    refuse(model)
    first: Any = next(neuron for neuron in neurons(model) if neuron.memory)
    uniform = all(bool((_height(neuron) == _height(neuron)[0]).all()) for neuron in neurons(model))
    saved = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    config = ExportedBertConfig(
        **saved,
        plain=type(model).__name__.removeprefix("Spiking"),
        time_steps=first.T,
        heights=1 if uniform else first.T,
        rule=asdict(first.rule),
        precision=precision,
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
    heights = {}
    for site, host in hosts.items():
        neuron = host.spike_in
        getattr(ours, f"threshold_{site}").copy_(_threshold(neuron).view(-1, 1, 1))
        heights[site] = _height(neuron)[:1] if uniform else _height(neuron)
    parts = (attention.query, attention.key, attention.value)
    ours.qkv.take(torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts]), heights["qkv_in"])
    for linear, site in (
        (ours.attention_output, "attn_out_in"),
        (ours.intermediate, "ffn1_in"),
        (ours.output, "ffn2_in"),
    ):
        linear.take(hosts[site].weight, hosts[site].bias, heights[site])
    stored = (attention.key.spike_out, attention.value.spike_out)
    for name, value_of in (("threshold_kv", _threshold), ("height_kv", _height)):
        columns = [value_of(neuron)[:, None].expand(-1, attention.all_head_size) for neuron in stored]
        getattr(ours, name).copy_(torch.cat(columns, dim=1).unsqueeze(1))
    ours.attention_norm.load_state_dict(theirs.attention.output.LayerNorm.state_dict())
    ours.output_norm.load_state_dict(theirs.output.LayerNorm.state_dict())


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
