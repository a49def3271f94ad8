"""A spiking BERT classifier with a block of its own: no neuron modules, no hooks, no time axis outside a layer.

It is quicker than the merged form of every other model (merged_model.py), which BERT has, too, where its neurons,
attention or norms are none that the block knows.

It is a transformers model: `import spikelm.export`, then AutoModelForSequenceClassification.from_pretrained(folder).
Queries, keys and values are one matmul; rows are t*B + b, as in the trained model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.compiler import is_exporting as exporting
from transformers import AutoConfig, AutoModelForSequenceClassification, BertConfig
from transformers.activations import ACT2FN
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertPreTrainedModel

from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.export.event.attention import dense_attention, spiking_attention
from spikelm.export.event.linear import EventLinear
from spikelm.export.linears import PRECISIONS, SpikeLinear
from spikelm.neurons import build_neuron
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels
from spikelm.neurons.unfolding.coded import CodedNeuron

INPUTS = ("qkv_in", "attn_out_in", "ffn1_in", "ffn2_in")


class ExportedBertConfig(BertConfig):
    """BERT's config, with the neurons' rule, the time steps and the precision of the linears."""

    model_type = "spikelm_bert_block"

    time_steps: int = 1
    heights: int = 1  # 1: all steps' spikes have one height; else one per step
    rule: dict[str, bool | float | str] | None = None  # the fields of a ClipRule; None: neurons of `code`
    code: dict[str, Any] | None = None  # class and arguments of neurons whose output is a whole number on a step
    precision: str = "fp32"
    exact_layers: int = 0  # so many of the first layers stay in fp32, whatever the precision of the others
    plain: str = "BertForSequenceClassification"  # the class of transformers that it was trained as

    def precision_of(self, layer: int) -> str:
        """How the linears of a layer are computed."""
        return "fp32" if layer < self.exact_layers else self.precision

    @property
    def clip_rule(self) -> ClipRule:
        """How neurons of the clip family fire and reset."""
        if self.rule is None:
            raise ConfigError("this config says nothing of neurons", "spikelm-export RUN writes one that does")
        return ClipRule(**self.rule)  # type: ignore[arg-type]

    def coded_neuron(self, memory: bool = True) -> CodedNeuron:
        """A neuron of `code`, whose amplitude is not set yet."""
        neuron = build_neuron(ClassSpec(**(self.code or {})), self.time_steps, memory)
        if not isinstance(neuron, CodedNeuron):
            raise ConfigError(f"{type(neuron).__name__} does not code whole numbers", "export the run again")
        return neuron


def frame_of(config: ExportedBertConfig) -> Any:
    """The plain classifier without its layers: embeddings, pooler where it has one, and head."""
    cls = getattr(transformers, config.plain)
    settings = {key: value for key, value in config.to_dict().items() if key != "model_type"}
    return cls(cls.config_class(**{**settings, "num_hidden_layers": 0}))


def linear_of(config: ExportedBertConfig, layer: int, inputs: int, outputs: int) -> SpikeLinear:
    """A linear of the precision that a layer has."""
    precision = config.precision_of(layer)
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision} is not known", f"one of: {', '.join(PRECISIONS)}")
    if precision != "event":
        return SpikeLinear(inputs, outputs, config.heights, precision)
    return EventLinear(
        inputs, outputs, config.heights, 1 if config.code is None else config.coded_neuron().rule.largest
    )


class ExportedLayer(nn.Module):
    """One block: spikes, or whole numbers of a code, into each linear and as keys and values."""

    def __init__(self, config: ExportedBertConfig, layer: int) -> None:
        super().__init__()
        hidden, wide = config.hidden_size, config.intermediate_size
        self.qkv = linear_of(config, layer, hidden, 3 * hidden)
        self.attention_output = linear_of(config, layer, hidden, hidden)
        self.intermediate = linear_of(config, layer, hidden, wide)
        self.output = linear_of(config, layer, wide, hidden)
        self.activation = ACT2FN[config.hidden_act]
        self.attention_norm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)
        self.output_norm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)
        self.fire: Firing | Coding = Firing(config, layer) if config.code is None else Coding(config)

    def forward(self, x: Tensor, mask: Tensor | None, batch: int) -> Tensor:
        """x is (T, B*n, H); mask (T*B, 1, 1, n) says which keys are there."""
        qkv = self.fire.into(self.qkv, x, "qkv_in")
        context = self.fire.attention(qkv, mask, batch)
        x = self.attention_norm(self.fire.into(self.attention_output, context, "attn_out_in", x))
        inner = self.activation(self.fire.into(self.intermediate, x, "ffn1_in"))
        return self.output_norm(self.fire.into(self.output, inner, "ffn2_in", x))


class Firing(nn.Module):
    """Neurons of the clip family without modules of their own: levels -1, 0 and 1 on thresholds."""

    threshold_kv: Tensor
    height_kv: Tensor

    def __init__(self, config: ExportedBertConfig, layer: int) -> None:
        super().__init__()
        self.rule = config.clip_rule
        self.still = replace(self.rule, beta=0.0)  # keys and values have no memory
        self.heads, self.exact = config.num_attention_heads, config.precision_of(layer) == "fp32"
        T, hidden = config.time_steps, config.hidden_size
        for site in INPUTS:
            self.register_buffer(f"threshold_{site}", torch.ones(T, 1, 1))
        self.register_buffer("threshold_kv", torch.ones(T, 1, 2 * hidden))
        self.register_buffer("height_kv", torch.ones(T, 1, 2 * hidden))

    def into(self, linear: SpikeLinear, x: Tensor, site: str, residual: Tensor | None = None) -> Tensor:
        """What a linear makes of the levels of x, whose heights are in its weights, plus a residual."""
        threshold = getattr(self, f"threshold_{site}")
        if isinstance(linear, EventLinear) and (len(x) == 1 or not self.rule.beta):
            return linear.fired(x, threshold, self.rule, residual)
        return linear(levels(x, threshold, self.rule), None, residual)

    def attention(self, qkv: Tensor, mask: Tensor | None, batch: int) -> Tensor:
        """Of queries, keys and values side by side, of which the last two fire."""
        if not self.exact:
            return spiking_attention(qkv, mask, batch, self.heads, self.threshold_kv, self.height_kv, self.still)
        kv = levels(qkv[..., qkv.shape[-1] // 3 :], self.threshold_kv, self.still).mul_(self.height_kv)
        return dense_attention(qkv, kv.chunk(2, dim=-1), mask, batch, self.heads)


class Coding(nn.Module):
    """Neurons whose output is n S: linears read n, and S multiplies what comes out of them."""

    def __init__(self, config: ExportedBertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.neurons = nn.ModuleDict({site: config.coded_neuron() for site in INPUTS})
        self.neurons.update({site: config.coded_neuron(memory=False) for site in ("key", "value")})

    def into(self, linear: SpikeLinear, x: Tensor, site: str, residual: Tensor | None = None) -> Tensor:
        """What a linear makes of the whole numbers of x and their steps, plus a residual."""
        neuron: Any = self.neurons[site]
        y: Tensor = linear(*neuron.code(x), residual)
        return y

    def attention(self, qkv: Tensor, mask: Tensor | None, batch: int) -> Tensor:
        """Of queries, keys and values side by side, of which the last two are coded."""
        hidden = qkv.shape[-1] // 3
        parts = zip(("key", "value"), qkv[..., hidden:].chunk(2, dim=-1), strict=True)
        kv = tuple(self.neurons[site](part) for site, part in parts)
        return dense_attention(qkv, kv, mask, batch, self.heads)


class ExportedBertForSequenceClassification(BertPreTrainedModel):
    """The classifier: embeddings, blocks over T steps, the mean over T, pooler, head."""

    config_class = ExportedBertConfig
    base_model_prefix = "exported"

    def __init__(self, config: ExportedBertConfig) -> None:
        super().__init__(config)
        if config.rule is None and config.code is None:
            raise ConfigError("this config says nothing of neurons", "spikelm-export RUN writes one that does")
        frame = frame_of(config)
        self.embeddings = frame.base_model.embeddings
        self.layers = nn.ModuleList(ExportedLayer(config, layer) for layer in range(config.num_hidden_layers))
        self.pooler = frame.base_model.pooler
        self.classifier = frame.classifier  # on the pooled first token, or on all tokens where there is no pooler
        self.post_init()
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        x = self.embeddings(
            input_ids=input_ids, token_type_ids=token_type_ids, position_ids=position_ids, inputs_embeds=inputs_embeds
        )
        batch, length, hidden = x.shape
        T = self.config.time_steps
        mask = None
        if attention_mask is not None and (exporting() or not (attention_mask.is_cpu and attention_mask.all())):
            mask = attention_mask.bool()[:, None, None, :].repeat(T, 1, 1, 1)
        x = x.reshape(1, batch * length, hidden).expand(T, -1, -1)
        for layer in self.layers:
            x = layer(x, mask, batch)
        if T > 1:
            x = x.mean(0)
        states = x.view(batch, length, hidden)
        pooled = states if self.pooler is None else self.pooler(states)
        return SequenceClassifierOutput(logits=self.classifier(pooled))


AutoConfig.register(ExportedBertConfig.model_type, ExportedBertConfig)
AutoModelForSequenceClassification.register(ExportedBertConfig, ExportedBertForSequenceClassification)
