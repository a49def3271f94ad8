"""Decoders that go on from a text: GPT-2, Llama and those built like it, with neurons where a config asks for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import AttentionSpec, NeuronSpec, NormSpec, QuantizerSpec
from spikelm.errors import CheckpointError
from spikelm.models.bert import spiking_if_asked, time_steps_of
from spikelm.models.gpt2 import build_gpt2
from spikelm.spiking import load_pretrained


def build_decoder(config: Config, vocab: int, end: int) -> nn.Module:
    """A randomly initialised decoder; `end` is the mark between documents."""
    make = build_gpt2 if config.backbone.kind == "gpt2" else build_llama
    return spiking_if_asked(make(config, vocab, end), config)


def build_llama(config: Config, vocab: int, end: int) -> nn.Module:
    """A randomly initialised Llama; its head shares the word embeddings unless `options.tied` is false."""
    size, own = config.backbone, config.backbone.options
    settings = LlamaConfig(
        vocab_size=vocab,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=own.get("key_value_heads"),
        head_dim=own.get("head_size"),
        hidden_act=size.activation,
        max_position_embeddings=size.positions,
        initializer_range=size.init,
        attention_dropout=size.attention_dropout,
        tie_word_embeddings=own.get("tied", True),
        bos_token_id=end,
        eos_token_id=end,
    )
    return LlamaForCausalLM(settings)


def load_decoder(config: Config, folder: Path | None = None) -> nn.Module:
    """A saved decoder, else the backbone's own weights, with what the config asks for.

    A spiking model of a run with the same T comes with its amplitudes; any other folder gives its weights alone.
    """
    of_run = folder is not None
    folder = folder or backbone_folder(config.backbone)
    try:
        if of_run and config.converted and time_steps_of(folder) == config.time_steps:
            return load_pretrained(folder, dtype=torch.float32)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)  # published ones are in half
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the decoder in {folder} cannot be loaded: {error}") from error
    return spiking_if_asked(model, config)


def plain_decoder(config: Config) -> Config:
    """The config of a decoder's plain model."""
    parts = {"neuron": NeuronSpec(), "weights": QuantizerSpec(), "attention": AttentionSpec(), "norm": NormSpec()}
    return replace(config, **parts)  # type: ignore[arg-type]
