"""ELMo on a task: a frozen biLM, a learned mix of its layers, a BiLSTM of the task's own, max-pooling.

elmo_k = gamma * sum_j softmax(w)_j h_kj
one sentence: u -> MLP; two: [u; v; |u - v|; u * v] -> MLP
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput

from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError
from spikelm.models.bert import num_labels
from spikelm.rivals.elmo.bilm import BiLM, BiLMConfig, bilm_sizes, spelling


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j h_j"""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        shares = self.weights.softmax(0)
        return self.gamma * sum(share * layer for share, layer in zip(shares, layers, strict=True))


def split_sentences(input_ids: Tensor, token_type_ids: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
    """[CLS] a [SEP] b [SEP] as the sentences [CLS] a [SEP] and [CLS] b [SEP], each with its mask."""
    second = token_type_ids.bool() & mask.bool()
    first = mask.bool() & ~second
    sentences = [(input_ids * first, first.long())]
    # b with the [SEP] before it, which is made its [CLS]
    start = first.sum(1, keepdim=True) - 1
    lengths = second.sum(1, keepdim=True) + 1
    place = torch.arange(input_ids.shape[1], device=input_ids.device)
    real = place < lengths
    ids = input_ids.gather(1, (start + place).clamp(max=input_ids.shape[1] - 1))
    ids = torch.where(place == 0, input_ids[:, :1], ids) * real
    sentences.append((ids, real.long()))
    return sentences


class ElmoForSequenceClassification(PreTrainedModel):
    """What is trained is the mix, the BiLSTM and the MLP; the biLM stays as it was pretrained, without dropout."""

    config_class = BiLMConfig
    config: BiLMConfig
    base_model_prefix = "elmo"

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self.bilm = BiLM(config)
        self.mix = ScalarMix(config.num_hidden_layers + 1)
        self.dropout = nn.Dropout(config.task_dropout)
        self.encoder = nn.LSTM(2 * config.hidden_size, config.task_hidden, batch_first=True, bidirectional=True)
        pooled = 2 * config.task_hidden * (4 if config.pairs else 1)
        self.classifier = nn.Sequential(
            nn.Dropout(config.task_dropout),
            nn.Linear(pooled, config.task_mlp),
            nn.Tanh(),
            nn.Dropout(config.task_dropout),
            nn.Linear(config.task_mlp, config.num_labels or 1),
        )
        self.post_init()
        self.bilm.requires_grad_(False)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, ScalarMix):
            init.zeros_(module.weights)
            init.ones_(module.gamma)
        elif isinstance(module, nn.LSTM):
            super()._init_weights(module)

    def train(self, mode: bool = True) -> ElmoForSequenceClassification:
        super().train(mode)
        self.bilm.eval()
        return self

    def sentence(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """A sentence as the maxima of the BiLSTM's states: (B, 2 task_hidden)."""
        with torch.no_grad():
            layers = self.bilm(input_ids, mask).hidden_states
        mixed = self.dropout(self.mix(layers))
        packed = nn.utils.rnn.pack_padded_sequence(mixed, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return states.masked_fill(mask[:, : states.shape[1], None] == 0, -torch.inf).amax(1)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> SequenceClassifierOutput:
        if not self.config.pairs:
            return SequenceClassifierOutput(logits=self.classifier(self.sentence(input_ids, attention_mask)))
        u, v = (self.sentence(*one) for one in split_sentences(input_ids, token_type_ids, attention_mask))
        return SequenceClassifierOutput(logits=self.classifier(torch.cat([u, v, (u - v).abs(), u * v], dim=-1)))


def bilm_config(config: Config, vocab: int, **settings: Any) -> BiLMConfig:
    """The biLM of a backbone: `hidden` is the projection, `intermediate` the cells."""
    size = config.backbone
    sizes: dict[str, Any] = {
        "num_hidden_layers": size.layers,
        "hidden_size": size.hidden,
        "cells": size.intermediate,
        "dropout": size.dropout,
        "initializer_range": size.init,
    }
    return BiLMConfig(vocab_size=vocab, **sizes, **bilm_sizes(size.options), **settings)


def build_bilm(config: Config, tokenizer: Tokenizer) -> BiLM:
    """A randomly initialised biLM that knows how its pieces are spelled."""
    model = BiLM(bilm_config(config, tokenizer.get_vocab_size()))
    model.tokens.spellings.copy_(spelling(tokenizer, model.config.characters))
    return model


def build_elmo_classifier(config: Config, pretrained: Path) -> ElmoForSequenceClassification:
    """A new task model over the biLM of a pretrained run."""
    try:
        bilm = BiLM.from_pretrained(pretrained)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the biLM in {pretrained} cannot be loaded: {error}") from error
    settings = {"num_labels": num_labels(config), "pairs": len(config.task.columns) == 2}
    model = ElmoForSequenceClassification(bilm_config(config, bilm.config.vocab_size, **settings))
    model.bilm.load_state_dict(bilm.state_dict())
    return model
