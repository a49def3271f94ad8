"""trainer.compile and trainer.activation_checkpointing: what they change, and that they undo it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

from spikelm.config.settings.running import TrainerConfig
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.spiking import neurons, spikify
from spikelm.training.devices import acceleration
from spikelm.training.devices.acceleration import accelerated

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
PLAIN = TrainerConfig(accelerator="cpu")


def model() -> Any:
    return spikify(BertModel(BertConfig(**SMALL)), BISPIKE, 2).train()


def test_off_changes_nothing() -> None:
    one = model()
    with accelerated(one, PLAIN):
        assert not any(neuron.compiled for neuron in neurons(one))
        assert not one.is_gradient_checkpointing


def test_compiled_inside_and_as_before_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "can_compile", lambda device: True)
    one = model()
    with accelerated(one, replace(PLAIN, compile="model", activation_checkpointing=True)):
        assert all(neuron.compiled for neuron in neurons(one))
        assert one.is_gradient_checkpointing
        assert all(block._compiled_call_impl is not None for block in one.encoder.layer)
    assert not any(neuron.compiled for neuron in neurons(one))
    assert not one.is_gradient_checkpointing
    assert all(block._compiled_call_impl is None for block in one.encoder.layer)


def test_without_a_compiler_training_goes_on_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "can_compile", lambda device: False)
    one = model()
    with accelerated(one, replace(PLAIN, compile="model")):
        assert one(input_ids=torch.zeros(1, 4, dtype=torch.long)).last_hidden_state.isfinite().all()
        assert not any(neuron.compiled for neuron in neurons(one))


def test_only_the_blocks_of_a_bert_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "can_compile", lambda device: True)
    other = GPT2Model(GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2))
    with (
        pytest.raises(ConfigError, match=r"compile=model is for a BERT"),
        accelerated(other, replace(PLAIN, compile="model")),
    ):
        pytest.fail("it was compiled")


@pytest.mark.slow
def test_a_compiled_block_has_no_graph_break_and_the_same_gradients() -> None:
    """By the backend that traces forward and backward but needs no C++ compiler."""
    torch.manual_seed(0)
    one = spikify(BertModel(BertConfig(**SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)), BISPIKE, 2)
    ids = torch.randint(0, 50, (3, 7))

    def gradients() -> dict[str, Any]:
        one.zero_grad()
        one(input_ids=ids).last_hidden_state.square().sum().backward()
        return {name: p.grad.clone() for name, p in one.named_parameters() if p.grad is not None}

    one.train()(input_ids=ids)
    eager = gradients()
    for neuron in neurons(one):
        neuron.compiled = True
    one.encoder.layer[0].compile(dynamic=True, fullgraph=True, backend="aot_eager")
    found = gradients()
    for name, value in eager.items():
        assert (found[name] - value).norm() <= 1e-3 * value.norm() + 1e-6, name
