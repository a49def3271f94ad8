"""The student of SpikeBERT: Spikformer blocks over words alone, no positions and, as released, no mask.

    x = x + N(LN(Wo N'((q k') v / 8)));  q, k, v = N(LN(W x))        N' has half the threshold
    x = x + N(LN(W2 N(LN(W1 x))))

N are the neurons, put in by spikify. The residual adds spikes to spikes: x holds small whole numbers. The words
enter as the signs of their embeddings.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertLayer, BertSelfAttention

from spikelm.catalog.kinds import Kind
from spikelm.models.architecture import Architecture
from spikelm.rivals.normed_layers import norm_after_linears
from spikelm.rivals.word_spikes import WordEmbeddings
from spikelm.training.encoders import fine_tuning, general

SCALE = 0.125  # of the attention, whatever the width of a head


class SpikformerConfig(BertConfig):
    """BERT's sizes; with `mask` pads are neither attended to nor averaged over nor imitated."""

    model_type = "spikformer"

    mask: bool = False
    norm_eps: float = 1e-5  # torch's, as in the original (why it matters: MembraneBertConfig)
    attention_threshold: float = 0.5

    @property
    def residual_spikes(self) -> int:
        """The most spikes that the residual can have added up: the words' and two per layer."""
        return 2 * self.num_hidden_layers + 1


class SpikeSelfAttention(BertSelfAttention):
    """(q k') v / 8 of spikes, without softmax; a masked key counts nothing."""

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Any:
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        linears = (self.query, self.key, self.value)
        query, key, value = (linear(hidden_states).view(shape).transpose(1, 2) for linear in linears)
        scores = query @ key.transpose(2, 3)
        if attention_mask is not None:
            scores = scores * attention_mask
        return (scores @ value * SCALE).transpose(1, 2).flatten(2), scores


class SpikformerEncoder(nn.Module):
    """The blocks and the norm of the head, which SpikeBERT applies at every time step."""

    def __init__(self, config: SpikformerConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config, layer_idx=i) for i in range(config.num_hidden_layers))
        blocks: Any = self.layer
        for layer in blocks:
            layer.attention.self = SpikeSelfAttention(config)
            norm_after_linears(layer, "ln", eps=config.norm_eps)
            for output in (layer.attention.output, layer.output):
                output.dropout = nn.Identity()  # a spike is passed on or it is not
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutput:
        states: list[Any] = []
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask)
            states.append(hidden_states)
        return BaseModelOutput(last_hidden_state=self.norm(hidden_states), hidden_states=tuple(states))


class SpikformerModel(PreTrainedModel):
    """Words to states; with output_hidden_states also what is compared with the teacher's layers.

    That is LN(W mean over time of block i), one transform per layer, which only distillation needs.
    """

    config_class = SpikformerConfig
    base_model_prefix = "spikformer"

    def __init__(self, config: SpikformerConfig) -> None:
        super().__init__(config)
        self.embeddings = WordEmbeddings(config)
        self.encoder = SpikformerEncoder(config)
        width = config.hidden_size
        self.transforms = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(config.num_hidden_layers)
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BaseModelOutput:
        words = self.embeddings(input_ids)
        real = (
            attention_mask[:, None, None].to(words.dtype) if self.config.mask and attention_mask is not None else None
        )
        output = self.encoder(words, attention_mask=real)
        states = None
        if output_hidden_states:
            blocks = zip(self.transforms, output.hidden_states, strict=True)
            states = (words, *(transform(block) for transform, block in blocks))
        return BaseModelOutput(last_hidden_state=output.last_hidden_state, hidden_states=states)


class SpikformerForSequenceClassification(PreTrainedModel):
    """A linear on the mean of the tokens; a mean over time before it is a mean of logits after it."""

    config_class = SpikformerConfig
    base_model_prefix = "spikformer"

    def __init__(self, config: SpikformerConfig) -> None:
        super().__init__(config)
        self.spikformer = SpikformerModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 2)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        output = self.spikformer(input_ids, attention_mask, **kwargs)
        states = output.last_hidden_state
        if self.config.mask and attention_mask is not None:
            real = attention_mask[..., None].to(states.dtype)
            pooled = (states * real).sum(1) / real.sum(1)
        else:
            pooled = torch.mean(states, 1)
        return SequenceClassifierOutput(logits=self.classifier(pooled), hidden_states=output.hidden_states)


def architecture(kind: Kind) -> Architecture:
    """A student of BERT: general distillation without labels, then a task with its teacher beside it."""
    return Architecture(
        config=SpikformerConfig,
        encoder=SpikformerModel,
        classifier=SpikformerForSequenceClassification,
        general=general,
        fine_tuning=fine_tuning,
    )
