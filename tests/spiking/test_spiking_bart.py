"""Spiking BART, mBART and Marian: sites, a loop over time steps as oracle, the encoder's hand-over, saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    BartConfig,
    BartForCausalLM,
    BartForConditionalGeneration,
    BartModel,
    MarianModel,
    MarianMTModel,
    MBartForConditionalGeneration,
    MBartModel,
)
from transformers.modeling_outputs import BaseModelOutput

from spikelm import spiking
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.spiking import load_pretrained, neurons, spikify

SHARED = {"qkv_in": 3, "cross_kv_in": 2}  # linears fed by one neuron
SELF = ["qkv_in", "key_out", "value_out", "attn_out_in"]
CROSS = ["cross_q_in", "cross_kv_in", "cross_key_out", "cross_value_out", "cross_out_in"]
FFN = ["ffn1_in", "ffn2_in"]
MEMORYLESS = ("key_out", "value_out")
MODELS = {"bart": BartForConditionalGeneration, "mbart": MBartForConditionalGeneration, "marian": MarianMTModel}
BASES = {"bart": BartModel, "mbart": MBartModel, "marian": MarianModel}


def inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**batch, "decoder_input_ids": torch.randint(4, 90, (3, 6))}


def trained(model: Any, neuron: dict, T: int, batch: dict, **options: Any) -> Any:
    spikify(model, neuron, T, **options).train()(**batch)
    return model.eval()


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("kind", MODELS)
def test_neurons_sit_at_the_published_sites(small_seq2seq, bispike, kind: str, T: int) -> None:
    model = spikify(MODELS[kind](small_seq2seq(kind, encoder_layers=3)), bispike, T)
    wanted = [f"encoder.layers.{i}.{name}" for i in range(3) for name in (*SELF, *FFN)]
    wanted += [f"decoder.layers.{i}.{name}" for i in range(2) for name in (*SELF, *CROSS, *FFN)]
    found = {neuron.site: neuron for neuron in neurons(model)}
    assert sorted(found) == sorted(wanted)
    for site, neuron in found.items():
        assert neuron.memory != site.endswith(MEMORYLESS)


def test_published_neuron_count(bispike) -> None:
    """BART_base has 96 spiking linears and 36 keys and values; 66 + 36 neurons feed them here."""
    size = {"encoder_layers": 6, "decoder_layers": 6, "d_model": 8, "vocab_size": 10, "encoder_ffn_dim": 8}
    size |= {"decoder_ffn_dim": 8, "encoder_attention_heads": 1, "decoder_attention_heads": 1}
    names = [n.site.rpartition(".")[2] for n in neurons(spikify(BartModel(BartConfig(**size)), bispike, 4))]
    outputs = [name for name in names if name.endswith(MEMORYLESS)]
    linears = sum(SHARED.get(name, 1) for name in names if name not in outputs)
    assert (linears, len(outputs), len(names)) == (96, 36, 102)


def linear(module: Any, x: Tensor) -> Tensor:
    return F.linear(x, module.weight, module.bias)  # the weights alone: calling the module would call its neurons


def normed(module: Any, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], module.weight, module.bias)


def sines(tokens: int, width: int) -> Tensor:
    """Position p of pair i turns by p / 10000^(2 i / width): all sines, then all cosines."""
    turns = torch.arange(tokens).double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
    return torch.cat([turns.sin(), turns.cos()], dim=1).float()  # as transformers keeps them


class Loop:
    """One time step after the other, a membrane per site: the equations of section 3.1 without any folding."""

    def __init__(self, model: nn.Module) -> None:
        self.alpha = {neuron.site: neuron.alpha for neuron in neurons(model)}
        self.left: dict[str, Tensor] = {}

    def spike(self, site: str, x: Tensor, t: int) -> Tensor:
        a = self.alpha[site][t]
        m = x + self.left.get(site, torch.zeros_like(x))
        s = a * (m / a).round().clamp(-1, 1)
        if not site.endswith(MEMORYLESS):
            self.left[site] = 0.25 * m * (a - s)
        return s

    def attend(self, attention: Any, x: Tensor, source: Tensor, mask: Tensor, names: list[str], t: int) -> Tensor:
        heads = attention.num_heads
        key, value, out = names
        q = linear(attention.q_proj, x).unflatten(-1, (heads, -1)).transpose(1, 2)
        k = self.spike(key, linear(attention.k_proj, source), t).unflatten(-1, (heads, -1)).transpose(1, 2)
        v = self.spike(value, linear(attention.v_proj, source), t).unflatten(-1, (heads, -1)).transpose(1, 2)
        scores = (q @ k.transpose(2, 3)) * attention.head_dim**-0.5
        context = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
        return linear(attention.out_proj, self.spike(out, context.transpose(1, 2).flatten(2), t))

    def block(self, layer: Any, site: str, x: Tensor, mask: Tensor, cross: tuple | None, t: int, pre: bool) -> Tensor:
        def sub(norm: nn.Module, run: Any, x: Tensor) -> Tensor:
            return x + run(normed(norm, x)) if pre else normed(norm, x + run(x))

        def self_attention(x: Tensor) -> Tensor:
            s = self.spike(f"{site}.qkv_in", x, t)
            return self.attend(layer.self_attn, s, s, mask, [f"{site}.{name}" for name in SELF[1:]], t)

        def cross_attention(x: Tensor) -> Tensor:
            states, source_mask = cross  # type: ignore[misc]
            q = self.spike(f"{site}.cross_q_in", x, t)
            kv = self.spike(f"{site}.cross_kv_in", states, t)
            return self.attend(layer.encoder_attn, q, kv, source_mask, [f"{site}.{name}" for name in CROSS[2:]], t)

        def ffn(x: Tensor) -> Tensor:
            hidden = F.gelu(linear(layer.fc1, self.spike(f"{site}.ffn1_in", x, t)))
            return linear(layer.fc2, self.spike(f"{site}.ffn2_in", hidden, t))

        x = sub(layer.self_attn_layer_norm, self_attention, x)
        if cross is not None:
            x = sub(layer.encoder_attn_layer_norm, cross_attention, x)
        return sub(layer.final_layer_norm, ffn, x)

    def run(self, model: Any, batch: dict[str, Tensor], T: int, mean_source: bool) -> tuple[Tensor, Tensor]:
        def embed(stack: Any, ids: Tensor) -> Tensor:
            if not hasattr(stack, "layernorm_embedding"):  # Marian
                return stack.embed_tokens.weight[ids] * width**0.5 + sines(ids.shape[1], width)
            positions = stack.embed_positions.weight[2 : 2 + ids.shape[1]]
            return normed(stack.layernorm_embedding, stack.embed_tokens.weight[ids] + positions)

        width = model.config.d_model

        def stack(part: Any, name: str, x: Tensor, mask: Tensor, cross: tuple | None, t: int) -> Tensor:
            pre = hasattr(part, "layer_norm")  # mBART
            for i, layer in enumerate(part.layers):
                x = self.block(layer, f"{name}.layers.{i}", x, mask, cross, t, pre)
            return normed(part.layer_norm, x) if pre else x

        source_mask = batch["attention_mask"].bool()[:, None, None, :]
        x, y = embed(model.encoder, batch["input_ids"]), embed(model.decoder, batch["decoder_input_ids"])
        causal = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).tril()
        encoded = [stack(model.encoder, "encoder", x, source_mask, None, t) for t in range(T)]
        read = [sum(encoded) / T] * T if mean_source else encoded
        decoded = [stack(model.decoder, "decoder", y, causal, (read[t], source_mask), t) for t in range(T)]
        return sum(encoded) / T, sum(decoded) / T


@pytest.mark.parametrize("cross", ["step", "mean"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", BASES)
def test_a_loop_over_time_steps_gives_the_same(
    small_seq2seq, bispike, batch, kind: str, attention: str, cross: str
) -> None:
    size = small_seq2seq(kind, encoder_layers=1, decoder_layers=1, attn_implementation=attention)
    data = inputs(batch)
    model = trained(BASES[kind](size).double(), bispike, 4, data, cross=cross)
    with torch.no_grad():
        found = model(**data)
        encoded, decoded = Loop(model).run(model, data, 4, cross == "mean")
    torch.testing.assert_close(found.last_hidden_state, decoded, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.encoder_last_hidden_state, encoded, rtol=0, atol=1e-9)


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("kind", MODELS)
def test_recorded_outputs_have_no_time_axis(small_seq2seq, bispike, batch, kind: str, T: int) -> None:
    data = inputs(batch)
    model = trained(MODELS[kind](small_seq2seq(kind, attn_implementation="eager")), bispike, T, data)
    out = model(**data, output_hidden_states=True, output_attentions=True)
    assert out.logits.shape == (3, 6, 90)
    assert {tuple(x.shape) for x in out.encoder_hidden_states} == {(3, 11, 32)}
    assert {tuple(x.shape) for x in out.decoder_hidden_states} == {(3, 6, 32)}
    assert {tuple(x.shape) for x in out.encoder_attentions} == {(3, 4, 11, 11)}
    assert {tuple(x.shape) for x in out.decoder_attentions} == {(3, 4, 6, 6)}
    assert {tuple(x.shape) for x in out.cross_attentions} == {(3, 4, 6, 11)}
    assert [len(out.encoder_hidden_states), len(out.decoder_hidden_states)] == [3, 3]
    torch.testing.assert_close(out.encoder_hidden_states[-1], out.encoder_last_hidden_state)
    torch.testing.assert_close(model.lm_head(out.decoder_hidden_states[-1]) + model.final_logits_bias, out.logits)
    flat = model(**data, output_hidden_states=True, output_attentions=True, return_dict=False)
    assert torch.equal(flat[0], out.logits)
    shapes = {tuple(x.shape) for value in flat if isinstance(value, tuple) for x in value}
    assert shapes == {(3, 11, 32), (3, 6, 32), (3, 4, 11, 11), (3, 4, 6, 6), (3, 4, 6, 11)}
    assert (3, 11, 32) in {tuple(value.shape) for value in flat if isinstance(value, Tensor)}


@pytest.mark.parametrize("cross", ["step", "mean"])
def test_the_encoder_hands_on_what_the_decoder_needs(small_seq2seq, bispike, batch, cross: str) -> None:
    data = inputs(batch)
    model = trained(BartForConditionalGeneration(small_seq2seq()), bispike, 4, data, cross=cross)
    wanted = model(**data).logits
    encoded = model.get_encoder()(**batch)
    assert encoded.last_hidden_state.shape == ((3, 11, 4, 32) if cross == "step" else (3, 11, 32))
    rest = {"attention_mask": batch["attention_mask"], "decoder_input_ids": data["decoder_input_ids"]}
    as_tuple = model.get_encoder()(**batch, return_dict=False)
    for outputs in (encoded, as_tuple, BaseModelOutput(encoded.last_hidden_state)):
        assert torch.equal(model(encoder_outputs=outputs, **rest).logits, wanted)
    tokens = model.generate(**batch, num_beams=2, max_new_tokens=5)
    again = model.generate(
        encoder_outputs=encoded, attention_mask=batch["attention_mask"], num_beams=2, max_new_tokens=5
    )
    assert torch.equal(tokens, again)


def test_encoder_states_without_their_time_steps_are_refused(small_seq2seq, bispike, batch) -> None:
    data = inputs(batch)
    model = trained(BartForConditionalGeneration(small_seq2seq()), bispike, 4, data)
    mean = model.get_encoder()(**batch).last_hidden_state.mean(2)
    with pytest.raises(SpikeLMError, match="4 time steps"):
        model(encoder_outputs=(mean,), decoder_input_ids=data["decoder_input_ids"])


def test_padding_of_the_source_does_not_matter(small_seq2seq, bispike, batch) -> None:
    data = inputs(batch)
    model = trained(BartForConditionalGeneration(small_seq2seq()).double(), bispike, 4, data)
    other = {**data, "input_ids": data["input_ids"].masked_fill(data["attention_mask"] == 0, 7)}
    torch.testing.assert_close(model(**data).logits, model(**other).logits, rtol=0, atol=1e-9)


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("kind", MODELS)
def test_save_and_load_is_exact(small_seq2seq, bispike, batch, tmp_path: Path, kind: str, T: int) -> None:
    data = inputs(batch)
    plain = MODELS[kind](small_seq2seq(kind, tie_word_embeddings=True))
    names = [name for name, _ in plain.named_parameters()]
    model = trained(plain, bispike, T, data, cross="mean" if T > 1 else "step")
    assert [name for name, _ in model.named_parameters()] == names
    model.save_pretrained(tmp_path)
    named = getattr(spiking, f"Spiking{MODELS[kind].__name__}")
    for again in (load_pretrained(tmp_path), named.from_pretrained(tmp_path)):
        assert type(again) is type(model)
        state = again.state_dict()
        assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
        assert all(neuron.ready for neuron in neurons(again))
        assert torch.equal(again.eval()(**data).logits, model(**data).logits)
        assert again.lm_head.weight.data_ptr() == again.model.shared.weight.data_ptr()


def test_every_parameter_learns(small_seq2seq, bispike, batch) -> None:
    data = inputs(batch)
    plain = BartForConditionalGeneration(small_seq2seq(tie_word_embeddings=True))
    model = spikify(plain, bispike.having(alpha="learnable"), 2).train()
    model(**data)
    model(**data, labels=torch.randint(4, 90, (3, 6))).loss.backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
    # keys shift all scores of a query alike, so their bias has no gradient in the ANN either
    assert [name for name in silent if not name.endswith("k_proj.bias")] == []


def test_gradient_checkpointing_changes_nothing(small_seq2seq, bispike, batch) -> None:
    data = inputs(batch)
    model = spikify(BartForConditionalGeneration(small_seq2seq()), bispike, 4).train()
    model(**data)
    grads = []
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.zero_grad()
        model(**data, labels=data["decoder_input_ids"]).loss.backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_layerdrop_may_skip_the_first_layer(small_seq2seq, bispike, batch) -> None:
    model = spikify(BartForConditionalGeneration(small_seq2seq(encoder_layerdrop=1.0)), bispike, 4).train()
    assert model(**inputs(batch)).logits.shape == (3, 6, 90)


def test_what_cannot_be_is_refused(small_seq2seq, bispike) -> None:
    with pytest.raises(ConfigError, match=r"no encoder\.layers"):
        spikify(BartForCausalLM(small_seq2seq()), bispike, 2)
    with pytest.raises(ConfigError, match="cross='other'"):
        spikify(BartModel(small_seq2seq()), bispike, 2, cross="other")
