"""Spiking GPT-2: keys and values are parts of one packed projection, and the stack is the model itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2LMHeadModel, GPT2Model

from spikelm.errors import ConfigError
from spikelm.spiking import load_pretrained, neurons, spikify

SITES = ["qkv_in", "key_out", "value_out", "attn_out_in", "ffn1_in", "ffn2_in"]


@pytest.mark.parametrize("T", [1, 4])
def test_only_the_key_and_value_parts_are_spikes(small_gpt2, bispike, batch, T: int) -> None:
    model = spikify(GPT2Model(small_gpt2()), bispike, T).train()
    assert sorted(n.site for n in neurons(model)) == sorted(f"h.{i}.{name}" for i in range(2) for name in SITES)
    seen: list[torch.Tensor] = []
    model.h[1].attn.c_attn.register_forward_hook(lambda module, args, out: seen.append(out))
    model(**batch)
    query, key, value = seen[0].unflatten(0, (T, -1)).chunk(3, dim=-1)
    assert all(len(step.unique()) <= 3 for part in (key, value) for step in part)
    assert all(len(step.unique()) > 100 for step in query)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_blocks_run_by_hand_give_the_same(small_gpt2, bispike, batch, attention: str) -> None:
    T = 4
    model = spikify(GPT2Model(small_gpt2(attn_implementation=attention)), bispike, T).train()
    model(**batch)
    model.eval()
    ids = batch["input_ids"]
    hidden = torch.cat([model.wte(ids) + model.wpe.weight[:11]] * T)
    keep = torch.ones(11, 11, dtype=torch.bool).tril() & batch["attention_mask"].bool()[:, None, None, :]
    keep |= torch.eye(11, dtype=torch.bool)  # a row without any key would be undefined
    mask = torch.where(keep, 0.0, torch.finfo(torch.float32).min)
    for block in model.h:
        hidden = block(hidden, attention_mask=torch.cat([mask] * T))
    wanted = model.ln_f(hidden).view(T, 3, 11, 32).mean(0)
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(model(**batch).last_hidden_state[real], wanted[real], rtol=0, atol=1e-5)


def test_recorded_outputs_and_saving(small_gpt2, bispike, batch, tmp_path: Path) -> None:
    plain = GPT2LMHeadModel(small_gpt2(attn_implementation="eager"))
    names = [name for name, _ in plain.named_parameters()]
    model = spikify(plain, bispike, 4).train()
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    assert [name for name, _ in model.named_parameters()] == names
    model.eval()
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    assert {tuple(x.shape) for x in out.hidden_states} == {(3, 11, 32)}
    assert {tuple(x.shape) for x in out.attentions} == {(3, 4, 11, 11)}
    model.save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    assert type(again) is type(model)
    assert all(n.ready for n in neurons(again))
    assert torch.equal(again(**batch).logits, out.logits)


def test_cross_attention_is_refused(small_gpt2, bispike) -> None:
    with pytest.raises(ConfigError, match="cross attention"):
        spikify(GPT2Model(small_gpt2(add_cross_attention=True)), bispike, 1)
