"""Small BERTs for the spiking tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import BertConfig

BISPIKE = {"_target_": "spikelm.neurons.bispike.BiSpike", "k": 2.0}


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def bispike() -> dict[str, Any]:
    return dict(BISPIKE)


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
