"""The spike audit of encoder, decoder and cross attention, in one pass and decoding from the cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
)

from spikelm.catalog.energy import encoder_terms, seq2seq_terms
from spikelm.cli.audit_command import print_audit
from spikelm.config.settings.specs import ClassSpec
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import prompt
from spikelm.spiking import spikify

torch.set_num_threads(1)
BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
HOW = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
LAYERS, HIDDEN, FFN = 2, 32, 64
KINDS = ("bart", "mbart", "marian", "gpt2")


def batch(kind: str) -> dict[str, Tensor]:
    ids = torch.randint(4, 50, (3, 8), generator=torch.Generator().manual_seed(1))
    read = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return {**read, "decoder_input_ids": ids} if kind == "marian" else read  # the others shift what they read


def made(kind: str, T: int = 0, attention: str = "eager", neuron: ClassSpec = BISPIKE) -> Any:
    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "attn_implementation": attention}
    model: Any
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=HIDDEN, n_layer=LAYERS, n_head=2, n_inner=FFN, **ids))
    else:
        size = {"vocab_size": 50, "d_model": HIDDEN, "encoder_layers": LAYERS, "decoder_layers": LAYERS}
        size |= {"encoder_ffn_dim": FFN, "decoder_ffn_dim": FFN, "decoder_start_token_id": 2}
        size |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        config, cls = (BartConfig, BartForConditionalGeneration)
        if kind == "mbart":
            config, cls = (MBartConfig, MBartForConditionalGeneration)
        if kind == "marian":
            config, cls = (MarianConfig, MarianMTModel)
        model = cls(config(**size, **ids))
    if T:
        spikify(model, neuron, T).train()(**batch(kind))
    return model


@pytest.mark.parametrize("generate", [None, HOW, {**HOW, "num_beams": 3}, {**HOW, "use_cache": False}])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_spiking_models_are_fully_spike_driven(kind: str, T: int, attention: str, generate: dict | None) -> None:
    report = audit(made(kind, T, attention), prompt(batch(kind)) if generate else batch(kind), T, generate=generate)
    assert report.verdict == "fully"
    assert report.real_valued == ["lm_head"]
    assert report.silent == []
    assert report.parts == (("h",) if kind == "gpt2" else ("encoder", "decoder"))


@pytest.mark.parametrize("generate", [None, HOW])
@pytest.mark.parametrize("kind", KINDS)
def test_ann_is_not(kind: str, generate: dict | None) -> None:
    report = audit(made(kind), prompt(batch(kind)) if generate else batch(kind), 1, generate=generate)
    assert report.verdict == "none"


def test_every_matmul_is_there() -> None:
    report = audit(made("bart", 4), batch("bart"), 4)
    assert len(report.encoder) == LAYERS * (8 + 14)
    terms = seq2seq_terms(LAYERS, LAYERS, HIDDEN, FFN, 8, 8)
    assert sum(row.macs for row in report.encoder) == 4 * 3 * sum(term.macs for term in terms)
    gpt = audit(made("gpt2", 4), batch("gpt2"), 4).encoder
    one = encoder_terms(LAYERS, HIDDEN, FFN, 8, stack="h")
    assert sum(row.macs for row in gpt) == 4 * 3 * sum(term.macs for term in one)


REMOVED = [
    ("model.encoder.layers.1.fc1", "pre", "model.encoder.layers.1.fc1"),
    ("model.decoder.layers.0.fc2", "pre", "model.decoder.layers.0.fc2"),
    ("model.decoder.layers.1.self_attn.k_proj", "post", "model.decoder.layers.1.self_attn"),
    ("model.decoder.layers.1.self_attn.v_proj", "post", "model.decoder.layers.1.self_attn"),
    ("model.decoder.layers.0.encoder_attn.k_proj", "post", "model.decoder.layers.0.encoder_attn"),
    ("model.decoder.layers.0.encoder_attn.v_proj", "post", "model.decoder.layers.0.encoder_attn"),
    ("model.decoder.layers.0.encoder_attn.out_proj", "pre", "model.decoder.layers.0.encoder_attn.out_proj"),
]


@pytest.mark.parametrize("generate", [None, HOW])
@pytest.mark.parametrize("path, hook, named", REMOVED)
def test_a_neuron_that_is_skipped_is_named(path: str, hook: str, named: str, generate: dict | None) -> None:
    model = made("bart", 4)
    module = model.get_submodule(path)
    (module._forward_pre_hooks if hook == "pre" else module._forward_hooks).clear()
    report = audit(model, batch("bart"), 4, generate=generate)
    assert report.verdict == "partly"
    assert report.real_valued == [named, "lm_head"]


@pytest.mark.parametrize("generate", [None, HOW])
def test_the_input_of_cross_keys_and_values_is_watched(generate: dict | None) -> None:
    """Only the source's neuron goes; what folds its states into the decoder's rows must stay."""
    model = made("bart", 4)
    attention = model.model.decoder.layers[1].encoder_attn
    attention.spike_in_key_value_states.forward = lambda x: x
    report = audit(model, batch("bart"), 4, generate=generate)
    assert report.real_valued == [f"model.decoder.layers.1.encoder_attn.{name}_proj" for name in "kv"] + ["lm_head"]


@pytest.mark.parametrize("generate", [None, HOW])
def test_a_spoilt_key_of_gpt2_is_named(generate: dict | None) -> None:
    model = made("gpt2", 2)
    model.transformer.h[0].attn.c_attn.spike_out_1.register_forward_hook(
        lambda module, args, out: out + 1e-3 * torch.randn_like(out)
    )
    rows = [row for row in audit(model, batch("gpt2"), 2, generate=generate).encoder if not row.spike_driven]
    assert {(row.module, row.kind) for row in rows} == {("transformer.h.0.attn", "query x key")}


def test_the_printed_report_names_both_stacks() -> None:
    model = made("bart", 2)
    model.model.decoder.layers[1].fc1._forward_pre_hooks.clear()
    console = Console(width=100)
    with console.capture() as capture:
        print_audit(audit(model, batch("bart"), 2, generate=HOW), console)
    text = capture.get()
    assert "the encoder and decoder are partly spike-driven" in text
    assert "Real-valued inside the encoder and decoder: model.decoder.layers.1.fc1" in text
