"""Tiny random decoders in folders, as save_pretrained and a language-model run leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_decoders import save
from tokenizers import Tokenizer

from spikelm.data import microworld
from spikelm.data.tokens.bpe import train_bpe


@pytest.fixture(scope="session")
def text_tokenizer() -> Tokenizer:
    return train_bpe((" ".join(document) for document in microworld.documents(60)), 400)


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory, text_tokenizer: Tokenizer) -> Callable[[str], Path]:
    """The folder of one of DECODERS: config.json, model.safetensors and tokenizer.json, nothing else."""
    folders: dict[str, Path] = {}

    def made(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("decoder") / "model"
            save(name, folders[name], text_tokenizer)
        return folders[name]

    return made
