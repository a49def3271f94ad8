"""BERTSUMABS: a BERT that reads marked sentences, and a Transformer decoder that starts from nothing.

Every sentence is [CLS] .. [SEP]; segments alternate sentence by sentence. The decoder's embeddings start as BERT's and
are its output layer too. The original decoder normalises before each sublayer; this one is transformers' BERT with
cross attention, which normalises after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertLMHeadModel, BertModel, EncoderDecoderConfig, EncoderDecoderModel

from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError
from spikelm.models.bart import SpecialTokens


def segments(input_ids: Tensor, cls: int) -> Tensor:
    """0 for the first sentence, 1 for the second, 0 for the third ..: a sentence starts with [CLS]."""
    return ((input_ids == cls).cumsum(1) - 1).clamp_min(0) % 2


class SentenceBert(BertModel):
    """A BERT that finds its segments itself; `config.sentence_token_id` is [CLS]."""

    def forward(self, input_ids: Tensor | None = None, **inputs: Any) -> Any:  # type: ignore[override]
        if input_ids is not None and inputs.get("token_type_ids") is None:
            inputs["token_type_ids"] = segments(input_ids, self.config.sentence_token_id)  # type: ignore[attr-defined]
        return super().forward(input_ids=input_ids, **inputs)


class BertSumAbs(EncoderDecoderModel):
    """transformers' pair of models, with an encoder that knows sentences."""

    def __init__(self, config: EncoderDecoderConfig | None = None, encoder: Any = None, decoder: Any = None) -> None:
        if config is not None:
            encoder = encoder or SentenceBert(config.encoder, add_pooling_layer=False)
            decoder = decoder or BertLMHeadModel(config.decoder)
        super().__init__(config=config, encoder=encoder, decoder=decoder)


def decoder_config(config: Config, vocab: int) -> BertConfig:
    """The decoder of a backbone: as wide as its BERT, with heads, FFN and dropout of its own."""
    size, own = config.backbone, config.backbone.options
    return BertConfig(
        vocab_size=vocab,
        hidden_size=size.hidden,
        num_hidden_layers=size.decoder_layers or size.layers,
        num_attention_heads=own["decoder_heads"],
        intermediate_size=own["decoder_intermediate"],
        max_position_embeddings=size.positions,
        hidden_act=size.activation,
        hidden_dropout_prob=own["decoder_dropout"],
        attention_probs_dropout_prob=own["decoder_dropout"],
        initializer_range=size.init,
        pad_token_id=0,
        is_decoder=True,
        add_cross_attention=True,
    )


def build_bertsum(config: Config, pretrained: Path, vocab: int, cls: int, tokens: SpecialTokens) -> BertSumAbs:
    """A pretrained BERT with a new decoder; `vocab` may hold a few pieces that BERT did not know."""
    size = config.backbone
    dropout: dict[str, Any] = {
        "hidden_dropout_prob": size.dropout,
        "attention_probs_dropout_prob": size.attention_dropout,
    }
    try:
        encoder: Any = SentenceBert.from_pretrained(pretrained, add_pooling_layer=False, **dropout)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the BERT in {pretrained} cannot be loaded: {error}") from error
    encoder.config.sentence_token_id = cls
    encoder.resize_token_embeddings(max(vocab, encoder.config.vocab_size), mean_resizing=False)
    decoder: Any = BertLMHeadModel(decoder_config(config, encoder.config.vocab_size))
    with torch.no_grad():
        decoder.get_input_embeddings().weight.copy_(encoder.get_input_embeddings().weight)
    model: Any = BertSumAbs(encoder=encoder, decoder=decoder)
    special = {
        "pad_token_id": tokens.pad,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "decoder_start_token_id": tokens.start,
    }
    for settings in (model.config, model.generation_config):
        for name, value in special.items():
            setattr(settings, name, value)
    return model
