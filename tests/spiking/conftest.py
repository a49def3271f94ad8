"""Small BERTs, BARTs and GPTs for the spiking tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import BartConfig, BertConfig, GPT2Config, MarianConfig, MBartConfig

from spikelm.config.settings.specs import ClassSpec

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": 2.0})
# Wide weights and a head of its own, so that a random model does not say one word for ever.
SEQ2SEQ = {
    "vocab_size": 90,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 40,
    "dropout": 0.0,
    "init_std": 0.3,
    "tie_word_embeddings": False,
    "decoder_start_token_id": 2,
}


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def bispike() -> ClassSpec:
    return BISPIKE


@pytest.fixture
def small() -> Callable[..., BertConfig]:
    def config(**changes: Any) -> BertConfig:
        facts = {
            "vocab_size": 90,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "max_position_embeddings": 24,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        return BertConfig(**{**facts, **changes})

    return config


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    """Three sentences of 11 tokens, the last two padded."""
    mask = torch.ones(3, 11, dtype=torch.long)
    mask[1, 8:] = 0
    mask[2, 5:] = 0
    return {"input_ids": torch.randint(0, 90, (3, 11)), "attention_mask": mask}


@pytest.fixture
def small_seq2seq() -> Callable[..., BartConfig | MBartConfig | MarianConfig]:
    def config(kind: str = "bart", **changes: Any) -> BartConfig | MBartConfig | MarianConfig:
        if kind == "marian":  # as they are published: pads begin the decoder's texts, embeddings are scaled
            changes = {"decoder_start_token_id": 1, "scale_embedding": True, "pad_token_id": 1, **changes}
        return {"bart": BartConfig, "mbart": MBartConfig, "marian": MarianConfig}[kind](**{**SEQ2SEQ, **changes})

    return config


@pytest.fixture
def small_gpt2() -> Callable[..., GPT2Config]:
    def config(**changes: Any) -> GPT2Config:
        size = {"vocab_size": 90, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "initializer_range": 0.3}
        ids = {"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
        rest = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": False}
        return GPT2Config(**{**size, **ids, **rest, **changes})

    return config
