"""BART, mBART and Marian of any size from a config, with neurons where the config asks for them.

BART normalises after each sublayer; mBART before it, with one more LayerNorm behind each stack and scaled embeddings.
Marian is a BART without a LayerNorm behind its embeddings, which are scaled, and with sinusoidal positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BartConfig, GenerationConfig, MarianConfig, MBartConfig

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.kinds import kind_of
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError, ConfigError
from spikelm.models.architecture import Architecture, architecture_of
from spikelm.models.bert import spiking_if_asked, time_steps_of
from spikelm.spiking import spiking_class

Seq2SeqConfig = BartConfig | MBartConfig | MarianConfig
SCALED = ("mbart", "marian")  # kinds that multiply embeddings by the root of their width; bart-base does not


@dataclass(frozen=True)
class SpecialTokens:
    """Ids that generation needs; the defaults are those of facebook/bart-base, which starts decoding with eos."""

    pad: int = 1
    bos: int = 0
    eos: int = 2
    start: int = 2


BART_TOKENS = SpecialTokens()


def seq2seq_config(
    backbone: BackboneConfig, vocab: int | None = None, tokens: SpecialTokens = BART_TOKENS
) -> Seq2SeqConfig:
    """transformers' config of a backbone: post-LN for bart and marian, pre-LN with final LayerNorms for mbart."""
    settings: Seq2SeqConfig = _architecture(backbone).config(
        vocab_size=backbone.vocab if vocab is None else vocab,
        d_model=backbone.hidden,
        encoder_layers=backbone.layers,
        decoder_layers=backbone.decoder_layers or backbone.layers,
        encoder_attention_heads=backbone.heads,
        decoder_attention_heads=backbone.heads,
        encoder_ffn_dim=backbone.intermediate,
        decoder_ffn_dim=backbone.intermediate,
        max_position_embeddings=backbone.positions,
        activation_function=backbone.activation,
        dropout=backbone.dropout,
        attention_dropout=backbone.attention_dropout,
        init_std=backbone.init,
        scale_embedding=backbone.kind in SCALED,
        pad_token_id=tokens.pad,
        bos_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        decoder_start_token_id=tokens.start,
        forced_eos_token_id=tokens.eos,
    )
    return settings


def build_seq2seq(config: Config, vocab: int | None = None, tokens: SpecialTokens = BART_TOKENS) -> nn.Module:
    """A randomly initialised encoder-decoder with its tied LM head."""
    size = config.backbone
    model = _architecture(size).generator(seq2seq_config(size, vocab, tokens))
    if size.kind != "marian":  # whose positions are sines
        with torch.no_grad():
            for stack in (model.model.encoder, model.model.decoder):
                stack.embed_positions.weight.mul_(size.position_init / size.init)
    return spiking_if_asked(_with_fixed_positions(model), config)


def load_seq2seq(config: Config, folder: Path) -> nn.Module:
    """A saved encoder-decoder to go on from, with the backbone's dropout.

    A spiking model saved with the same T comes with its amplitudes; a plain one (a student's teacher) or one with
    another T gives its weights only, and amplitudes are set on the first batch.
    """
    cls = _architecture(config.backbone).generator
    if config.converted and time_steps_of(folder) == config.time_steps:
        return _load(spiking_class(cls), folder, config.backbone)
    return spiking_if_asked(_load(cls, folder, config.backbone), config)


def load_public(config: Config, vocab: int, tokens: SpecialTokens) -> nn.Module:
    """The backbone's own weights, to be trained with a tokenizer of `vocab` pieces.

    Their settings of generate() are not taken over (facebook/bart-base forbids repeated trigrams, mbart-large-cc25 does
    not say in which language to start): the task's are all there are.
    """
    model: Any = load_seq2seq(config, backbone_folder(config.backbone))
    if vocab > model.config.vocab_size:
        what = f"the tokenizer has {vocab} pieces, the weights in {config.backbone.path} only {model.config.vocab_size}"
        raise CheckpointError(what, "put the tokenizer.json of the weights beside them")
    ids = {"pad_token_id": tokens.pad, "bos_token_id": tokens.bos, "eos_token_id": tokens.eos}
    ids |= {"decoder_start_token_id": tokens.start, "forced_eos_token_id": tokens.eos}
    # A decoder that starts with padding never writes it, although its logit may be the highest.
    never = {"bad_words_ids": [[tokens.pad]]} if tokens.start == tokens.pad else {}
    model.generation_config = GenerationConfig(**ids, **never)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        setattr(model.config, name, ids[name])
    return model


def _load(cls: Any, folder: Path, size: BackboneConfig) -> Any:
    dropout = {"dropout": size.dropout, "attention_dropout": size.attention_dropout}
    try:  # published weights may be stored in half
        return _with_fixed_positions(cls.from_pretrained(folder, dtype=torch.float32, **dropout))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the model in {folder} cannot be loaded: {error}") from error


def _with_fixed_positions(model: Any) -> Any:
    """The model; a Marian's sines are no weights to train, which transformers forgets when it loads them."""
    if model.config.model_type == "marian":
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.requires_grad_(False)
    return model


def _architecture(backbone: BackboneConfig) -> Architecture:
    if not kind_of(backbone).seq2seq:
        raise ConfigError(
            f"this task needs an encoder-decoder; backbone={backbone.name} is a {backbone.kind}", "backbone=bart_mini"
        )
    return architecture_of(backbone)
