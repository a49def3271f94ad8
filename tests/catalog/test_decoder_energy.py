"""Energy of decoders: the matmuls of Llama and GPT-2 by hand, and as torch and the audit see them while decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from spikelm.catalog.energy import Term, causal_terms, decoder_terms, llama_terms, lm_head_terms
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import measure_firing
from spikelm.spiking import calibrate, neurons, spikify

torch.set_num_threads(1)
VOCAB, NEW = 50, 7
LLAMA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
MODELS = [
    ("llama", LLAMA),
    ("llama", {**LLAMA, "head_dim": 16}),  # heads that are wider together than the hidden states
    ("qwen2", LLAMA),
    ("gemma", {**LLAMA, "head_dim": 8}),
    ("gpt2", GPT2),
    ("gpt2", {**GPT2, "n_inner": 48}),
]


def macs(terms: list[Term]) -> int:
    return sum(term.macs for term in terms)


def decoder(kind: str, sizes: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    ids = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(kind, **sizes, **ids)
    # torch counts a fused attention kernel as nothing on a CPU
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def written(tokens: int) -> dict[str, Any]:
    return {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}


@pytest.mark.parametrize(("kind", "sizes"), MODELS)
def test_macs_are_those_that_torch_counts_while_decoding_from_a_single_token(kind: str, sizes: dict[str, Any]) -> None:
    model = decoder(kind, sizes)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.generate(input_ids=torch.tensor([[5]]), **written(NEW))
    terms = decoder_terms(model.config.to_dict(), NEW, spiking=False)
    assert 2 * (macs(terms) + macs(lm_head_terms(32, VOCAB, NEW))) == counter.get_total_flops()
    assert {term.site for term in terms} == {None}


@pytest.mark.parametrize(("kind", "sizes"), MODELS)
def test_every_matmul_is_one_of_the_audit_s_and_is_fed_by_the_neuron_it_names(kind: str, sizes: dict[str, Any]) -> None:
    ids = torch.randint(3, VOCAB, (1, 1))
    model = calibrate(spikify(decoder(kind, sizes), "bispike", T=1), {"input_ids": torch.randint(3, VOCAB, (4, 9))})
    terms = decoder_terms(model.config.to_dict(), NEW, spiking=True)
    report = audit(model.eval(), {"input_ids": ids}, 1, generate=written(NEW))
    assert sum(row.macs for row in report.encoder) == macs(terms)
    products = {row.kind: 0 for row in report.encoder}
    for row in report.encoder:
        products[row.kind] += row.macs
    for name in ("query x key", "attention x value"):
        assert products[name] == macs([term for term in terms if term.name == name])
    rates = measure_firing(model, [{"input_ids": ids}], written(NEW))
    assert {term.site for term in terms} == set(rates) == {neuron.site for neuron in neurons(model)}


def test_a_block_by_hand() -> None:
    """Five tokens; six query heads of 4 share two heads of keys and values; hidden size 20, 30 inside."""
    wanted = {
        "query": ("layers.0.qkv_in", 5 * 20 * 24),
        "key": ("layers.0.qkv_in", 5 * 20 * 8),
        "value": ("layers.0.qkv_in", 5 * 20 * 8),
        "query x key": ("layers.0.key_out", (1 + 2 + 3 + 4 + 5) * 24),
        "attention x value": ("layers.0.value_out", (1 + 2 + 3 + 4 + 5) * 24),
        "attention output": ("layers.0.attn_out_in", 5 * 24 * 20),
        "gate": ("layers.0.ffn1_in", 5 * 20 * 30),
        "up": ("layers.0.ffn1_in", 5 * 20 * 30),
        "down": ("layers.0.ffn2_in", 5 * 30 * 20),
    }
    assert {term.name: (term.site, term.macs) for term in llama_terms(1, 20, 30, 6, 2, 4, 5)} == wanted
    assert len(llama_terms(3, 20, 30, 6, 2, 4, 5)) == 3 * len(wanted)
    assert causal_terms(2, 8, 16, 3, "h")[-1] == Term("ffn2", "h.1.ffn2_in", 3 * 8 * 16, 1)
    assert causal_terms(2, 8, 16, 3)[-1] == Term("ffn2", None, 3 * 8 * 16, 1)


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(ConfigError, match=r"mamba.*num_attention_heads"):
        decoder_terms({"model_type": "mamba", "hidden_size": 8}, 4, spiking=False)
    with pytest.raises(ConfigError, match="key_value_heads=0"):
        llama_terms(1, 8, 8, 1, 0, 8, 4)
