"""Tiny random decoders in folders, as save_pretrained and a language-model run leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from spikelm.spiking import calibrate, spikify

MAX_LENGTH = 64
SIZES: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": MAX_LENGTH,
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": MAX_LENGTH},
}
#: architecture, neuron, T, arguments of the neuron
DECODERS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "plain": ("llama", "", 1, {}),
    "bispike T=1": ("llama", "bispike", 1, {}),
    "bispike T=2": ("llama", "bispike", 2, {}),
    "residual D=2": ("llama", "residual", 1, {"steps": 2, "scale": "token"}),
    "dynamic T=2": ("llama", "dynamic", 2, {}),
    "plain GPT-2": ("gpt2", "", 1, {}),
    "lif GPT-2 T=4": ("gpt2", "lif", 4, {}),
    "twn": ("llama", "twn", 1, {}),
}
#: all but the one whose neurons look at the whole batch
SCORED = tuple(name for name in DECODERS if name != "twn")


@torch.no_grad()
def save(name: str, folder: Path, tokenizer: Tokenizer) -> None:
    """One of DECODERS as config.json, model.safetensors and tokenizer.json."""
    kind, neuron, T, arguments = DECODERS[name]
    marks = {"bos_token_id": tokenizer.token_to_id("<s>"), "eos_token_id": tokenizer.token_to_id("</s>")}
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, vocab_size=tokenizer.get_vocab_size(), **SIZES[kind], **marks)
    )
    for weight in model.parameters():  # logits that differ enough for a choice to be more than a coin toss
        if weight.dim() == 2:
            weight.mul_(4)
    if neuron:
        model = calibrate(spikify(model, neuron, T=T, **arguments), torch.randint(400, (4, 16)))
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").unlink(missing_ok=True)
