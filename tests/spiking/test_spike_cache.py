"""The cache of spikes: exact, small, reordered at every time step, and generate() the same with and without it.

Models are in double precision where tokens are compared: matmuls of another shape round differently, and a membrane
on the threshold then fires in one of them only, cached or not.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    BartForConditionalGeneration,
    DynamicCache,
    GPT2LMHeadModel,
    MarianMTModel,
    MBartForConditionalGeneration,
)
from transformers.cache_utils import EncoderDecoderCache

from spikelm.config import trust
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.neurons import Neuron, build_neuron
from spikelm.spiking import calibrate, neurons, spikify
from spikelm.spiking.kv_cache import SpikeCache, SpikeLayer, amplitudes, pack, unpack

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": 2.0})
NEURONS = {
    "bispike": BISPIKE,
    "learnable": BISPIKE.having(alpha="learnable"),
    "lif": ClassSpec("spikelm.neurons.lif.LIF"),
    "psn": ClassSpec("spikelm.neurons.psn.PSN"),
    "lif_atan": ClassSpec("spikelm.neurons.lif_atan.LIFAtan"),
}
CODES = {
    "residual": ClassSpec("spikelm.neurons.unfolding.residual.Residual", {"steps": 3, "k": 4.0}),
    "residual by token": ClassSpec("spikelm.neurons.unfolding.residual.Residual", {"steps": 4, "scale": "token"}),
    "place": ClassSpec("spikelm.neurons.unfolding.place.Place", {"width": 8}),
    "stbif": ClassSpec("spikelm.neurons.unfolding.stbif.STBIF"),
    "ilif": ClassSpec("spikelm.neurons.unfolding.ilif.ILIF", {"signed": True}),
    "levels": ClassSpec("spikelm.neurons.unfolding.levels.Levels", {"levels": 8}),
    "phase": ClassSpec("spikelm.neurons.unfolding.phase.Phase"),
}
UNBOUNDED = ClassSpec("spikelm.neurons.unfolding.dynamic.Dynamic")
MODELS = {
    "bart": BartForConditionalGeneration,
    "mbart": MBartForConditionalGeneration,
    "marian": MarianMTModel,
    "gpt2": GPT2LMHeadModel,
}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 4, "num_return_sequences": 3, "early_stopping": True, "length_penalty": 2.0},
    "sampling": {"do_sample": True, "top_k": 20, "num_return_sequences": 2},
}


class Graded(Neuron):
    """Fires at more than one height: what the compact cache must not take for spikes."""

    def forward(self, x: Tensor) -> Tensor:
        return (2 * x).round() / 2


def made(kind: str, small_seq2seq: Any, small_gpt2: Any, neuron: dict, T: int, **changes: Any) -> Any:
    config = small_gpt2(**changes) if kind == "gpt2" else small_seq2seq(kind, **changes)
    model: Any = spikify(MODELS[kind](config).double(), neuron, T).train()
    ids = torch.randint(4, 90, (3, 9))
    with torch.no_grad():
        model(input_ids=ids, **({"decoder_input_ids": ids} if kind == "marian" else {}))
    return model.eval()


def prompt() -> dict[str, Tensor]:
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :4] = 0
    return {"input_ids": torch.randint(4, 90, (2, 9)), "attention_mask": mask}


def spikes(T: int, batch: int, tokens: int, width: int) -> Tensor:
    """(T*B, heads, n, d) with an amplitude per step."""
    codes = torch.randint(-1, 2, (T, batch, 2, tokens, width)).float()
    return (codes * (0.1 + torch.arange(T)).view(T, 1, 1, 1, 1)).flatten(0, 1)


@settings(max_examples=40, deadline=None)
@given(T=st.integers(1, 4), width=st.integers(1, 9), seed=st.integers(0, 10**6), place=st.integers(0, 10**6))
def test_packing_is_exact_and_refuses_all_else(T: int, width: int, seed: int, place: int) -> None:
    torch.manual_seed(seed)
    x = spikes(T, 2, 3, width).unflatten(0, (T, -1))
    found = amplitudes(x)
    assert found is not None
    packed = pack(x)
    assert packed.dtype == torch.uint8
    assert packed.shape[-1] == -(-width // 4)
    assert torch.equal(unpack(packed, found, width), x)
    for wrong in (0.03, 7.0, float("nan"), float("inf")):
        other = x.clone()
        other.view(-1)[place % x.numel()] = wrong
        level = amplitudes(other)
        assert level is None or torch.equal(unpack(pack(other), level, width), other)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("name", NEURONS)
@pytest.mark.parametrize("kind", MODELS)
def test_tokens_are_the_same_without_a_cache(small_seq2seq, small_gpt2, kind: str, name: str, T: int, way: str) -> None:
    model = made(kind, small_seq2seq, small_gpt2, NEURONS[name], T)
    inputs, how = prompt(), {"min_new_tokens": 5, "max_new_tokens": 12, **WAYS[way]}
    torch.manual_seed(3)
    full = model.generate(**inputs, **how, return_dict_in_generate=True)
    torch.manual_seed(3)
    bare = model.generate(**inputs, **how, use_cache=False)
    assert torch.equal(full.sequences, bare)
    assert len(bare[0].unique()) > 3  # a model that says one word for ever proves nothing
    pair = full.past_key_values
    caches = [pair] if kind == "gpt2" else [pair.self_attention_cache, pair.cross_attention_cache]
    assert all(isinstance(cache, SpikeCache) for cache in caches)
    assert all(store.amplitude is not None for cache in caches for layer in cache.layers for store in layer.stores)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("T", [1, 4])
def test_contents_are_those_of_transformers_own_cache(small_seq2seq, bispike, T: int, attention: str) -> None:
    model = made("bart", small_seq2seq, None, bispike, T, attn_implementation=attention)
    inputs, ids = prompt(), torch.randint(4, 90, (2, 5))
    with torch.no_grad():
        floats = EncoderDecoderCache(DynamicCache(), DynamicCache())
        wanted = model(**inputs, decoder_input_ids=ids, past_key_values=floats, use_cache=True).logits
        first = model(**inputs, decoder_input_ids=ids[:, :2], use_cache=True)
        cache = first.past_key_values
        steps = [first.logits]
        for i in range(2, 5):
            steps.append(model(**inputs, decoder_input_ids=ids[:, i : i + 1], past_key_values=cache).logits)
    torch.testing.assert_close(torch.cat(steps, 1), wanted, rtol=0, atol=1e-9)
    for ours, theirs in (
        (cache.self_attention_cache, floats.self_attention_cache),
        (cache.cross_attention_cache, floats.cross_attention_cache),
    ):
        for layer, other in zip(ours.layers, theirs.layers, strict=True):
            assert torch.equal(layer.keys, other.keys)
            assert torch.equal(layer.values, other.values)


@pytest.mark.parametrize("T", [1, 4])
def test_the_cache_is_a_sixteenth_of_one_of_floats(small_seq2seq, bispike, T: int) -> None:
    model = made("bart", small_seq2seq, None, bispike, T).float()
    with torch.no_grad():
        out = model(**prompt(), decoder_input_ids=torch.randint(4, 90, (2, 20)), use_cache=True).past_key_values
    for cache in (out.self_attention_cache, out.cross_attention_cache):
        held = [t for layer in cache.layers for store in layer.stores for t in (store.data, store.amplitude)]
        stored = sum(tensor.untyped_storage().nbytes() for tensor in held)
        floats = sum(4 * x.numel() for layer in cache.layers for x in (layer.keys, layer.values))
        amplitudes_bytes = 4 * T * 2 * len(cache.layers)
        assert stored == cache.nbytes == floats // 16 + amplitudes_bytes
        assert stored <= floats / 4


def test_other_values_are_kept_as_floats(small_seq2seq) -> None:
    trust.trust(__name__.split(".")[0])
    model = made("bart", small_seq2seq, None, ClassSpec(f"{__name__}.Graded"), 4)
    inputs, how = prompt(), {"num_beams": 4, "max_new_tokens": 10, "min_new_tokens": 6}
    full = model.generate(**inputs, **how, return_dict_in_generate=True)
    assert torch.equal(full.sequences, model.generate(**inputs, **how, use_cache=False))
    layer = full.past_key_values.self_attention_cache.layers[0]
    assert all(store.amplitude is None for store in layer.stores)


def test_a_layer_turns_to_floats_at_the_first_other_value() -> None:
    layer, T = SpikeLayer(2), 2
    parts = [torch.zeros(2 * T, 2, 1, 6), spikes(T, 2, 3, 6), 3 * spikes(T, 2, 1, 6), torch.randn(2 * T, 2, 2, 6)]
    compact = [True, True, False, False]  # silence, then spikes, then spikes of another height, then real values
    for i, (part, packed) in enumerate(zip(parts, compact, strict=True)):
        keys, values = layer.update(part, -part)
        assert torch.equal(keys, torch.cat(parts[: i + 1], dim=2))
        assert torch.equal(values, -keys)
        assert (layer.stores[0].amplitude is not None) == packed
    assert layer.get_seq_length() == 7


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("T", [1, 3])
def test_rows_are_picked_at_every_time_step(T: int, real: bool) -> None:
    x = torch.randn(T * 4, 2, 5, 6) if real else spikes(T, 4, 5, 6)
    steps = x.unflatten(0, (T, 4))
    index = torch.tensor([3, 0, 0, 2])

    def layer() -> SpikeLayer:
        made = SpikeLayer(T)
        made.update(x, -x)
        return made

    for change, wanted in (
        (lambda cache: cache.reorder_cache(index), steps[:, index]),
        (lambda cache: cache.batch_select_indices(index[:2]), steps[:, index[:2]]),
        (lambda cache: cache.batch_repeat_interleave(2), steps.repeat_interleave(2, dim=1)),
        (lambda cache: cache.crop(-2), steps[..., :3, :]),
        (lambda cache: cache.crop(0), steps),
    ):
        cache = layer()
        change(cache)
        assert torch.equal(cache.keys, wanted.flatten(0, 1))
        assert torch.equal(cache.values, -wanted.flatten(0, 1))
    cache = layer()
    cache.reset()
    assert cache.get_seq_length() == 0
    assert cache.keys is None
    with pytest.raises(ValueError, match="negative"):
        layer().crop(2)


def test_caches_that_do_not_know_time_are_refused(small_seq2seq, bispike) -> None:
    model = made("bart", small_seq2seq, None, bispike, 4)
    with pytest.raises(ConfigError, match="EncoderDecoderCache"):
        model.generate(**prompt(), past_key_values=EncoderDecoderCache(DynamicCache(), DynamicCache()))
    with pytest.raises(ConfigError, match="static"):
        model.generate(**prompt(), cache_implementation="static")


@pytest.mark.parametrize("way", ["greedy", "beams"])
@pytest.mark.parametrize("name", ["bispike", "lif"])
@pytest.mark.parametrize("T", [1, 4])
def test_single_precision_says_the_same(small_seq2seq, name: str, T: int, way: str) -> None:
    model = made("bart", small_seq2seq, None, NEURONS[name], T).float()
    inputs, how = prompt(), {"min_new_tokens": 5, "max_new_tokens": 12, **WAYS[way]}
    assert torch.equal(model.generate(**inputs, **how), model.generate(**inputs, **how, use_cache=False))


def test_guessed_tokens_are_taken_back(small_gpt2, bispike) -> None:
    """Prompt look-up decoding crops the cache where its guesses were wrong."""
    model = made("gpt2", None, small_gpt2, bispike, 4)
    ids = torch.randint(4, 90, (1, 4)).repeat(1, 4)
    how = {"max_new_tokens": 15, "min_new_tokens": 15, "do_sample": False}
    guessed = model.generate(ids, prompt_lookup_num_tokens=3, **how)
    assert torch.equal(guessed, model.generate(ids, use_cache=False, **how))


def test_a_cache_can_be_carried_to_the_next_turn(small_gpt2, bispike) -> None:
    model = made("gpt2", None, small_gpt2, bispike, 4)
    how = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    first = model.generate(torch.randint(4, 90, (2, 6)), **how, return_dict_in_generate=True)
    longer = torch.cat([first.sequences, torch.randint(4, 90, (2, 3))], dim=1)
    wanted = model.generate(longer, **how)
    assert torch.equal(model.generate(longer, past_key_values=first.past_key_values, **how), wanted)


def test_a_copy_of_a_model_is_independent(small_seq2seq, bispike) -> None:
    model = made("bart", small_seq2seq, None, bispike, 4)
    inputs, wanted = prompt(), None
    for twin in (model, copy.deepcopy(model)):
        tokens = twin.generate(**inputs, num_beams=2, max_new_tokens=8)
        wanted = tokens if wanted is None else wanted
        assert torch.equal(tokens, wanted)
    with torch.no_grad():
        for neuron in neurons(twin):
            neuron.alpha.mul_(3)
    assert torch.equal(model.generate(**inputs, num_beams=2, max_new_tokens=8), wanted)


def test_half_precision_is_packed_too(small_seq2seq, bispike) -> None:
    model = made("bart", small_seq2seq, None, bispike, 4).to(torch.bfloat16)
    out = model.generate(**prompt(), max_new_tokens=5, return_dict_in_generate=True).past_key_values
    layer = out.self_attention_cache.layers[0]
    assert layer.keys.dtype == torch.bfloat16
    assert all(store.amplitude is not None for store in layer.stores)


def test_training_keeps_its_gradients(small_seq2seq, bispike) -> None:
    model = made("bart", small_seq2seq, None, bispike, 2).train()
    model(**prompt(), decoder_input_ids=torch.randint(4, 90, (2, 5))).logits.sum().backward()
    assert model.model.decoder.layers[0].self_attn.k_proj.weight.grad.abs().sum() > 0
    assert model.model.decoder.layers[0].encoder_attn.v_proj.weight.grad.abs().sum() > 0


def test_cached_generation_computes_each_token_once(small_seq2seq, bispike) -> None:
    model = made("bart", small_seq2seq, None, bispike, 4, max_position_embeddings=200).float()
    inputs = {"input_ids": torch.randint(4, 90, (2, 30))}
    how = {"min_new_tokens": 20, "max_new_tokens": 20, "num_beams": 2}
    seen: list[int] = []
    model.model.decoder.layers[0].fc1.register_forward_hook(lambda module, args, output: seen.append(args[0].shape[-2]))

    def tokens(**options: Any) -> int:
        seen.clear()
        model.generate(**inputs, **how, **options)
        return sum(seen)

    assert tokens() == 20, "one token per step"
    assert tokens(use_cache=False) == sum(range(1, 21)), "all tokens so far, again and again"


@pytest.mark.parametrize("name", NEURONS)
def test_spikes_of_a_neuron_are_packed_without_a_look_at_them(small_seq2seq, name: str, monkeypatch) -> None:
    """A look would be waited for on a GPU, at every token: the neuron says how high its spikes are."""
    model = made("bart", small_seq2seq, None, NEURONS[name], 4)
    inputs = prompt()
    expected = model.generate(**inputs, max_length=8, use_cache=False)
    monkeypatch.setattr("spikelm.spiking.kv_cache.amplitudes", lambda *_: pytest.fail("the values were looked at"))
    monkeypatch.setattr(torch, "equal", lambda *_: pytest.fail("the values were compared"))
    generated = model.generate(**inputs, max_length=8)
    monkeypatch.undo()
    assert torch.equal(generated, expected)


@pytest.mark.parametrize("name", NEURONS)
def test_a_neuron_says_the_heights_of_its_spikes(name: str) -> None:
    neuron: Any = build_neuron(NEURONS[name], 4).double().train()
    spikes = neuron(3 * torch.randn(4, 8, 16, dtype=torch.float64))
    heights = neuron.heights(spikes)
    assert torch.equal(spikes.sign() * heights.view(4, 1, 1), spikes)
    assert spikes.any()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("T", [1, 2])
@pytest.mark.parametrize("name", CODES)
def test_whole_numbers_are_cached_and_change_no_token(name: str, T: int, way: str, small_seq2seq: Any) -> None:
    model = made("bart", small_seq2seq, None, CODES[name], T)
    inputs = prompt()
    results = []
    for use_cache in (False, True):
        torch.manual_seed(3)
        results.append(model.generate(**inputs, max_length=8, use_cache=use_cache, **WAYS[way]))
    assert torch.equal(*results)


@pytest.mark.parametrize("name", CODES)
def test_codes_take_a_byte_or_two(name: str, small_seq2seq: Any) -> None:
    model = made("bart", small_seq2seq, None, CODES[name], 2)
    with torch.no_grad():
        first = model(**prompt(), decoder_input_ids=torch.randint(4, 90, (2, 6)))
        cache = first.past_key_values
        model(**prompt(), decoder_input_ids=torch.randint(4, 90, (2, 1)), past_key_values=cache)
    layer = cache.self_attention_cache.layers[0]
    expected = torch.int16 if name in ("place", "phase") else torch.int8
    for store in layer.stores:
        assert store.data.dtype == expected
        assert store.data.shape[-2] == 7
        assert store.steps is not None
        assert store.steps.shape == ((2, 2, 1, 7, 1) if "token" in name or name == "place" else (2, 1, 1, 1, 1))


def test_numbers_without_a_bound_are_cached_as_floats(small_seq2seq: Any) -> None:
    model = made("bart", small_seq2seq, None, UNBOUNDED, 1)
    inputs = prompt()
    assert torch.equal(model.generate(**inputs, max_length=8), model.generate(**inputs, max_length=8, use_cache=False))


def test_floats_after_whole_numbers_make_all_of_it_floats(small_seq2seq: Any) -> None:
    model = made("bart", small_seq2seq, None, CODES["residual by token"], 1)
    with torch.no_grad():
        cache = model(**prompt(), decoder_input_ids=torch.randint(4, 90, (2, 6))).past_key_values
    layer = cache.self_attention_cache.layers[0]
    before = layer.keys
    other = torch.randn_like(before[:, :, :2])
    layer.update(other, other)
    assert torch.equal(layer.keys, torch.cat([before, other], dim=-2))


@pytest.mark.parametrize("name", ["residual", "residual by token", "stbif"])
def test_numbers_of_gpt2_are_cached_in_bytes(name: str, small_gpt2: Any) -> None:
    model = made("gpt2", None, small_gpt2, CODES[name], 2)
    with torch.no_grad():
        cache = model(torch.randint(4, 90, (2, 6))).past_key_values
        model(torch.randint(4, 90, (2, 1)), past_key_values=cache)
    assert {store.data.dtype for layer in cache.layers for store in layer.stores} == {torch.int8}
    ids = torch.randint(4, 90, (2, 5))
    assert torch.equal(model.generate(ids, max_length=10), model.generate(ids, max_length=10, use_cache=False))


AUDITED = {name: CODES[name] for name in ("residual", "residual by token", "stbif", "ilif")} | {"dynamic": UNBOUNDED}


@pytest.mark.parametrize("T", [1, 2])
@pytest.mark.parametrize("name", AUDITED)
def test_products_with_cached_keys_and_values_are_spike_driven(name: str, T: int, small_seq2seq: Any) -> None:
    model: Any = spikify(BartForConditionalGeneration(small_seq2seq("bart")), AUDITED[name], T)
    ids = torch.randint(4, 90, (2, 7))
    calibrate(model, {"input_ids": ids})
    report = audit(model, {"input_ids": ids}, T, generate={"max_length": 6, "do_sample": False})
    assert report.verdict == "fully", report.real_valued


@pytest.mark.parametrize("name", AUDITED)
def test_a_code_beside_other_values_is_found_again(name: str, small_gpt2: Any) -> None:
    """GPT-2 computes queries, keys and values in one product: only two thirds of what leaves it are spikes."""
    model: Any = spikify(GPT2LMHeadModel(small_gpt2()), AUDITED[name], 1)
    ids = torch.randint(4, 90, (2, 7))
    calibrate(model, {"input_ids": ids})
    assert audit(model, {"input_ids": ids}, 1).verdict == "fully"
    assert audit(model, {"input_ids": ids}, 1, generate={"max_length": 10, "do_sample": False}).verdict == "fully"
