"""BERT of any size from a config, with neurons where the config asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification

from spikelm.errors import CheckpointError
from spikelm.schema import BackboneConfig, Config
from spikelm.spiking import spikify, spiking_class


def bert_config(backbone: BackboneConfig, vocab: int, num_labels: int = 2) -> BertConfig:
    """transformers' config of a backbone; hidden_act is the FFN's, as in BERT."""
    return BertConfig(
        vocab_size=vocab,
        hidden_size=backbone.hidden,
        num_hidden_layers=backbone.layers,
        num_attention_heads=backbone.heads,
        intermediate_size=backbone.intermediate,
        max_position_embeddings=backbone.positions,
        hidden_act=backbone.activation,
        hidden_dropout_prob=backbone.dropout,
        attention_probs_dropout_prob=backbone.attention_dropout,
        initializer_range=backbone.init,
        pad_token_id=0,
        num_labels=num_labels,  # type: ignore[call-arg]
    )


def neuron_spec(config: Config) -> dict[str, Any]:
    """The neuron's class and arguments, without what only the config needs."""
    return {key: value for key, value in config.neuron.items() if key not in ("name", "valid", "T")}


def build_pretraining_model(config: Config, vocab: int) -> nn.Module:
    """A randomly initialised BERT with MLM and NSP heads."""
    model = BertForPreTraining(bert_config(config.backbone, vocab))
    with torch.no_grad():
        embeddings = model.bert.embeddings
        for table in (embeddings.position_embeddings, embeddings.token_type_embeddings):
            table.weight.mul_(config.backbone.position_init / config.backbone.init)
    return spikify(model, neuron_spec(config), config.time_steps) if config.spiking else model


def build_classifier(config: Config, pretrained: Path) -> nn.Module:
    """The pretrained encoder, amplitudes included, with a new head (one output for regression)."""
    cls: Any = spiking_class(BertForSequenceClassification) if config.spiking else BertForSequenceClassification
    num_labels = len(config.task.labels) if config.task.kind == "classification" else 1
    try:
        model = cls.from_pretrained(pretrained, num_labels=num_labels)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the pretrained model in {pretrained} cannot be loaded: {error}") from error
    return model


def parameter_count(model: nn.Module) -> int:
    """Parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
