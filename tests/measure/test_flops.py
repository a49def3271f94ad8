"""Operations of a training against torch's own counter, on small models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
)

from spikelm.config.compose import load_config
from spikelm.measure.flops import row_flops, row_macs
from spikelm.models.bert import bert_config
from spikelm.models.decoders import build_llama


def counted(model: Any, **inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        model(**inputs)
    return counter.get_total_flops()


def ids(length: int) -> torch.Tensor:
    return torch.zeros(1, length, dtype=torch.long)


def test_a_bert_is_counted_as_torch_counts_it() -> None:
    config = load_config(["task=pretrain", "scale=smoke", "backbone=bert_tiny", "neuron=ann"])
    size, length = config.backbone, config.pretrain.max_length
    model = BertForPreTraining._from_config(bert_config(size, size.vocab), attn_implementation="eager")
    macs, h = row_macs(config), size.hidden
    blocks = counted(model.bert, input_ids=ids(length))
    assert blocks == 2 * (macs.trained + h * h), "and the pooler, which is not counted"
    head = counted(model.cls.predictions, hidden_states=torch.zeros(1, length, h))
    assert 0.15 * head == pytest.approx(2 * macs.head)
    assert row_flops(config) == pytest.approx(6 * (macs.trained + macs.head))


def test_a_bart_and_a_gpt2_are_counted_as_torch_counts_them() -> None:
    pairs = load_config(["task=sum/xsum", "scale=smoke", "neuron=ann"])
    size, task = pairs.backbone, pairs.task
    own = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("attention_heads", size.heads), ("ffn_dim", size.intermediate))
    }
    layers = {"encoder_layers": size.layers, "decoder_layers": size.decoder_layers}
    settings = BartConfig(vocab_size=size.vocab, d_model=size.hidden, max_position_embeddings=1024, **own, **layers)
    bart = BartForConditionalGeneration._from_config(settings, attn_implementation="eager")
    work = counted(bart, input_ids=ids(task.source_length), decoder_input_ids=ids(task.target_length))
    macs = row_macs(pairs)
    assert work == pytest.approx(2 * (macs.trained + macs.head))

    text = load_config(["task=pretrain", "system=gpt2", "scale=smoke"])
    size, length = text.backbone, text.pretrain.max_length
    settings = GPT2Config(
        vocab_size=size.vocab,
        n_positions=length,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.intermediate,
    )
    gpt2 = GPT2LMHeadModel._from_config(settings, attn_implementation="eager")
    macs = row_macs(text)
    # the projections are addmm of Conv1D
    assert counted(gpt2, input_ids=ids(length)) == pytest.approx(2 * (macs.trained + macs.head))


def test_a_llama_is_counted_as_torch_counts_it() -> None:
    config = load_config(["task=lm/embedded", "scale=smoke", "neuron=ann"])
    settings = build_llama(config, config.backbone.vocab, 0).config
    llama = LlamaForCausalLM._from_config(settings, attn_implementation="eager")
    macs = row_macs(config)
    assert counted(llama, input_ids=ids(config.stage.max_length)) == 2 * (macs.trained + macs.head)


def test_time_steps_teachers_and_recomputed_activations_cost_what_they_cost() -> None:
    options = ["scale=paper", "task=glue/rte", "system=bit"]
    student = load_config(options)
    macs = row_macs(student).trained
    assert row_flops(student) == 6 * macs + 2 * macs, "one forward pass of the teacher"
    student.distill.teacher.cache = True
    assert row_flops(student) == pytest.approx(6 * macs + 2 * macs / 20), "asked in the first of 20 epochs"
    spiking = ["scale=paper", "task=glue/rte", "neuron=bispike", "T=4"]
    assert row_flops(load_config(spiking)) == 4 * 6 * macs
    assert row_flops(load_config([*spiking, "trainer.activation_checkpointing=true"])) == 4 * 8 * macs


def test_the_frozen_language_model_of_elmo_is_only_read() -> None:
    tuned, pretrained = (
        row_macs(load_config(["scale=paper", "system=elmo", f"task={t}"])) for t in ("glue/rte", "pretrain")
    )
    assert tuned.frozen == pretrained.trained
    assert tuned.trained < tuned.frozen
    assert pretrained.head == 2 * 128 * 512 * 30522, "both directions predict every token"
