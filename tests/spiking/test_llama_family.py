"""Llama and those built like it: one entry of sites serves them all, whatever T, neuron and way of decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from spikelm.catalog.kinds import LLAMA_FAMILY
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.spiking import calibrate, load_pretrained, neurons, spikify
from spikelm.spiking.kv_cache import SpikeCache
from spikelm.spiking.sites import LLAMA

SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NEURONS: list[tuple[str, int, dict[str, Any]]] = [
    ("bispike", 1, {}),
    ("bispike", 4, {}),
    ("lif", 4, {}),
    ("psn", 2, {}),
    ("residual", 1, {"steps": 3, "scale": "token"}),
]


@torch.no_grad()
def plain(kind: str = "llama", **settings: Any) -> Any:
    """A tiny random model whose logits differ enough for decoding to be more than a coin toss."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SIZES, **settings}))
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(4)
    return model.eval()


def prompts() -> dict[str, torch.Tensor]:
    """Two prompts of different length, padded on the left as generate() wants them."""
    torch.manual_seed(1)
    ids = torch.randint(3, 100, (2, 9))
    mask = torch.ones_like(ids)
    mask[0, :3], ids[0, :3] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def long_prompts() -> dict[str, torch.Tensor]:
    """The same with 70 tokens, of which a row lacks 20."""
    torch.manual_seed(2)
    ids = torch.randint(3, 100, (2, 70))
    mask = torch.ones_like(ids)
    mask[1, :20], ids[1, :20] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def spiking(kind: str, neuron: str, T: int, **arguments: Any) -> Any:
    model = spikify(plain(kind), neuron, T=T, **arguments)
    return calibrate(model, prompts()).eval()


@pytest.mark.parametrize("kind", LLAMA_FAMILY)
def test_every_member_of_the_family_is_spike_driven_and_decodes_from_its_cache(kind: str) -> None:
    model = spiking(kind, "bispike", 4)
    cached, whole = (
        model.generate(**prompts(), max_new_tokens=6, do_sample=False, use_cache=wanted) for wanted in (True, False)
    )
    assert torch.equal(cached, whole)
    report = audit(model, prompts(), T=4)
    assert (report.verdict, report.real_valued) == ("fully", ["lm_head"])


@pytest.mark.parametrize(("neuron", "T", "arguments"), NEURONS)
@pytest.mark.parametrize("decoding", [{"do_sample": False}, {"num_beams": 3}, {"do_sample": True, "top_k": 5}])
def test_decoding_with_the_cache_writes_the_same_tokens(
    neuron: str, T: int, arguments: dict[str, Any], decoding: dict[str, Any]
) -> None:
    model = spiking("llama", neuron, T, **arguments)
    written = []
    for cached in (True, False):
        torch.manual_seed(3)
        written.append(model.generate(**prompts(), max_new_tokens=8, use_cache=cached, **decoding))
    assert torch.equal(*written)


@pytest.mark.parametrize(("neuron", "T", "arguments"), NEURONS)
def test_the_products_of_a_decoding_step_read_spikes(neuron: str, T: int, arguments: dict[str, Any]) -> None:
    report = audit(spiking("llama", neuron, T, **arguments), prompts(), T, generate={"max_new_tokens": 3})
    assert report.verdict == "fully"


class Ones(nn.Module):
    """In place of a neuron: what it reads is what it gives, so that a model with it is the plain one."""

    T = 1

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        return x

    def coding(self, x: torch.Tensor) -> None:
        return None

    def heights(self, x: torch.Tensor) -> None:
        return None


def test_keys_reach_their_neuron_with_their_rotary_positions() -> None:
    """Against the keys that a plain model caches, which are those behind the positions."""
    model = plain()
    with torch.no_grad():
        expected = model(**prompts(), use_cache=True)
    spikify(model, "bispike", T=1)
    stand_ins = [Ones() for _ in range(2)]
    for block, stand_in in zip(model.model.layers, stand_ins, strict=True):
        block.self_attn.spike_key = stand_in
        block.self_attn.spike_in = Ones()
        block.self_attn.v_proj.spike_out = Ones()
        block.self_attn.o_proj.spike_in = Ones()
        block.mlp.spike_in, block.mlp.down_proj.spike_in = Ones(), Ones()
    with torch.no_grad():
        same = model(**prompts(), use_cache=False)
    torch.testing.assert_close(same.logits, expected.logits)
    for layer, stand_in in enumerate(stand_ins):
        keys = expected.past_key_values.layers[layer].keys  # (B, heads, n, d)
        torch.testing.assert_close(stand_in.seen[0][0], keys.transpose(1, 2).flatten(2))


def test_time_steps_of_equal_input_give_the_plain_average() -> None:
    """Without memory, T copies of one input are T times the same: as one step."""
    one, four = (spiking("llama", "residual", T, steps=3, scale="token") for T in (1, 4))
    torch.testing.assert_close(one(**prompts()).logits, four(**prompts()).logits)


def test_gradients_reach_every_weight_through_keys_and_values() -> None:
    model = spiking("llama", "bispike", 2).train()
    model(**prompts(), use_cache=False).logits.square().mean().backward()
    without = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert without == []


@pytest.mark.parametrize("key_value_heads", [1, 2, 4])
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("neuron", ["bispike", "lif", "residual"])
def test_long_prompts_and_beams_are_decoded_alike_whatever_heads_share_keys(
    neuron: str, T: int, key_value_heads: int
) -> None:
    sizes = {"num_key_value_heads": key_value_heads, "max_position_embeddings": 128}
    model = spikify(plain("llama", **sizes).double(), neuron, T=T)
    calibrate(model, long_prompts()).eval()
    for decoding in ({"num_beams": 1}, {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 2.0}):
        # a random model would say one word for ever, which proves nothing
        options = {"min_new_tokens": 12, "max_new_tokens": 12, "no_repeat_ngram_size": 1, **decoding}
        cached, whole = (model.generate(**long_prompts(), **options, use_cache=wanted) for wanted in (True, False))
        assert torch.equal(cached, whole)


@pytest.mark.parametrize(
    ("kind", "window"),
    [("mistral", {}), ("gemma2", {}), ("qwen2", {"use_sliding_window": True, "max_window_layers": 0})],
)
def test_a_window_of_attention_is_kept_while_decoding(kind: str, window: dict[str, Any]) -> None:
    model = spikify(plain(kind, sliding_window=4, **window).double(), "bispike", T=2)
    calibrate(model, prompts()).eval()
    options = {"min_new_tokens": 10, "max_new_tokens": 10, "num_beams": 2}
    cached, whole = (model.generate(**prompts(), **options, use_cache=wanted) for wanted in (True, False))
    assert torch.equal(cached, whole)


def cache_bytes(model: Any) -> int:
    """Of the long prompts, after they were read and two more tokens each."""
    with torch.no_grad():
        cache = model(**long_prompts(), use_cache=True).past_key_values
        for token in torch.full((2, 2, 1), 5):
            mask = torch.ones(2, cache.get_seq_length() + 1, dtype=torch.long)
            model(token, attention_mask=mask, past_key_values=cache)
    if isinstance(cache, SpikeCache):
        return cache.nbytes
    return sum(tensor.untyped_storage().nbytes() for layer in cache.layers for tensor in (layer.keys, layer.values))


@pytest.mark.parametrize("key_value_heads", [1, 2, 4])
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize(
    ("neuron", "arguments", "bits", "scales"),
    [
        ("bispike", {}, 2, "step"),  # signs, four to a byte, and an amplitude for each time step
        ("lif", {}, 2, "step"),
        ("residual", {"steps": 3}, 8, "step"),  # a whole number of -13 ... 13
        ("residual", {"steps": 3, "scale": "token"}, 8, "token"),
        ("dynamic", {}, 32, "none"),  # numbers without a bound are kept as floats
    ],
)
def test_the_bytes_of_the_cache_are_those_by_hand(
    neuron: str, arguments: dict[str, Any], bits: int, scales: str, T: int, key_value_heads: int
) -> None:
    sizes = {"num_key_value_heads": key_value_heads, "max_position_embeddings": 128}
    floats = 2 * 2 * key_value_heads * 8 * (2 * 72) * 4  # keys and values, layers, heads, size of a head, tokens, bytes
    assert cache_bytes(plain("llama", **sizes)) == floats
    model = calibrate(spikify(plain("llama", **sizes), neuron, T=T, **arguments), long_prompts()).eval()
    scale = {"step": 4 * T, "token": 4 * T * 2 * 72, "none": 0}[scales]
    assert cache_bytes(model) == T * floats * bits // 32 + 2 * 2 * scale


def test_a_saved_model_comes_back(tmp_path: Any) -> None:
    model = spiking("qwen2", "residual", 1, steps=3)
    model.save_pretrained(tmp_path)
    again: Any = load_pretrained(tmp_path)
    assert torch.equal(again(**prompts()).logits, model(**prompts()).logits)
    assert len(list(neurons(again))) == 2 * len(LLAMA.sites)


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_a_rotation_changes_nothing_where_levels_are_fine(kind: str) -> None:
    """Also with heads of keys and values that several queries share."""
    given = plain(kind)(**prompts()).logits
    turned = spikify(plain(kind), "residual", T=1, rotation="hadamard", steps=8, scale="token").eval()
    torch.testing.assert_close(turned(**prompts()).logits, given, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", ["phi3", "gpt_neox", "opt", "falcon", "bloom", "gemma3_text", "mixtral", "qwen2_moe"])
def test_architectures_without_these_places_are_refused(kind: str) -> None:
    sizes = {name: size for name, size in SIZES.items() if name != "head_dim"}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes))
    with pytest.raises(ConfigError, match=f"no sites are known for architecture '{kind}'"):
        spikify(model, "bispike", T=1)


def test_the_guide_lists_the_family() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "lm.md").read_text()
    assert [kind for kind in LLAMA_FAMILY if f"`{kind}`" not in page] == []
