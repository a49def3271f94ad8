"""GPT-2 of any size from a config: transformers' own, from scratch or from saved weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import GPT2Config, GPT2LMHeadModel

from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError


def build_gpt2(config: Config, vocab: int, end: int) -> GPT2LMHeadModel:
    """A randomly initialised GPT-2 with its tied LM head; `end` is the mark between documents."""
    size = config.backbone
    settings = GPT2Config(
        vocab_size=vocab,
        n_positions=size.positions,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.intermediate,
        resid_pdrop=size.dropout,
        embd_pdrop=size.dropout,
        attn_pdrop=size.attention_dropout,
        initializer_range=size.init,
        bos_token_id=end,
        eos_token_id=end,
    )
    return GPT2LMHeadModel(settings)


def load_gpt2(folder: Path) -> Any:
    """A saved GPT-2."""
    try:
        return GPT2LMHeadModel.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the GPT-2 in {folder} cannot be loaded: {error}") from error
