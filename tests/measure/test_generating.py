"""Generation: the cache changes no token, spikes and energy a token by hand, streams give the whole text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from spikelm.catalog.energy import PICOJOULE, encoder_decoder_terms, seq2seq_terms
from spikelm.errors import ConfigError
from spikelm.measure.generating import Decoding, TextStream, fires, generate
from spikelm.spiking import calibrate, neurons, spikify

torch.set_num_threads(1)
VOCAB = 60
IDS = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
}
SIZES = {"llama": LLAMA, "qwen2": LLAMA, "gpt2": GPT2, "bart": BART, "mbart": BART, "marian": BART}
PROMPT = [7, 31, 12, 5, 44]


@torch.no_grad()
def plain(kind: str, **sizes: Any) -> Any:
    """A tiny random model whose logits differ enough for decoding to be more than a coin toss; it never ends early."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind, **{**SIZES[kind], **IDS, "forced_eos_token_id": None, "tie_word_embeddings": False, **sizes}
    )
    loader = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = loader.from_config(config, attn_implementation="eager")
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(4)
    model.generation_config.eos_token_id = VOCAB  # no such token
    return model.eval()


def spiking(
    kind: str, neuron: str = "bispike", T: int = 1, sizes: dict[str, Any] | None = None, **settings: Any
) -> Any:
    model = spikify(plain(kind, **(sizes or {})), neuron, T=T, **settings)
    ids = torch.randint(3, VOCAB, (4, 9))
    return calibrate(model, {"input_ids": ids, **({"decoder_input_ids": ids} if kind == "marian" else {})}).eval()


def model_of(kind: str, T: int | None) -> Any:
    return plain(kind) if T is None else spiking(kind, T=T)


@pytest.mark.parametrize("T", [None, 1, 4])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "bart", "mbart", "marian"])
def test_the_cache_changes_no_token(kind: str, T: int | None) -> None:
    model = model_of(kind, T)
    cached, whole = (generate(model, PROMPT, Decoding(12, cache=cache)) for cache in (True, False))
    assert cached.ids == whole.ids
    assert len(cached.ids) == 12
    assert len(set(cached.ids)) > 2, "more than one token again and again"
    by_hand = list(PROMPT)
    if not model.config.is_encoder_decoder:
        with torch.no_grad():
            for _ in range(12):
                by_hand.append(int(model(torch.tensor([by_hand]), use_cache=False).logits[0, -1].argmax()))
        assert cached.ids == by_hand[len(PROMPT) :]


def counted_by_hand(model: Any, *args: Any, **inputs: Any) -> dict[str, int]:
    """Non-zero spikes of every site in one pass over all tokens at once, without a cache."""
    events: dict[str, int] = {}

    def count(neuron: Any, args: tuple, spikes: Tensor) -> None:
        parts = neuron.unfold(args[0]) if neuron.unfolds else spikes
        events[neuron.site] = events.get(neuron.site, 0) + int((parts != 0).sum())

    hooks = [neuron.register_forward_hook(count) for neuron in neurons(model)]
    with torch.no_grad():
        model(*args, **inputs, use_cache=False)
    for hook in hooks:
        hook.remove()
    return events


@pytest.mark.parametrize(
    ("neuron", "T", "settings"),
    [("bispike", 1, {}), ("bispike", 4, {}), ("lif", 2, {}), ("residual", 1, {"steps": 3, "scale": "token"})],
)
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_spikes_a_token_are_those_of_one_pass_over_the_text(
    kind: str, neuron: str, T: int, settings: dict[str, Any]
) -> None:
    model = spiking(kind, neuron, T, **settings)
    made = generate(model, PROMPT, Decoding(8))
    text = torch.tensor([[*PROMPT, *made.ids[:-1]]])  # nobody reads the last token
    assert made.tokens_through == text.shape[1] == 12
    assert made.cost.spikes == pytest.approx(sum(counted_by_hand(model, text).values()) / 12, rel=1e-12)


def test_spikes_of_an_encoder_decoder_are_those_of_one_forced_pass() -> None:
    model = spiking("bart", T=2)
    made = generate(model, PROMPT, Decoding(8))
    read = torch.tensor([[2, *made.ids[:-1]]])
    events = counted_by_hand(model, input_ids=torch.tensor([PROMPT]), decoder_input_ids=read)
    assert made.tokens_through == len(PROMPT) + 8
    assert made.cost.spikes == pytest.approx(sum(events.values()) / made.tokens_through, rel=1e-12)


def test_energy_of_a_token_of_one_layer_is_each_spike_times_the_values_it_is_added_to() -> None:
    """Six tokens through one block: hidden size 24, six query heads of 8, two of keys and values, 30 inside."""
    sizes = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8}
    sizes |= {"num_hidden_layers": 1, "intermediate_size": 30}
    model, T = spiking("llama", T=3, sizes=sizes), 3
    made = generate(model, [9, 4], Decoding(5))
    spikes = counted_by_hand(model, torch.tensor([[9, 4, *made.ids[:-1]]]))
    additions = spikes["layers.0.qkv_in"] * (48 + 16 + 16)
    # a key or value is met by three query heads, and by the (6 + 1) / 2 tokens that see one in the mean
    additions += (spikes["layers.0.key_out"] + spikes["layers.0.value_out"]) * 3 * 3.5
    additions += spikes["layers.0.attn_out_in"] * 24
    additions += spikes["layers.0.ffn1_in"] * (30 + 30)
    additions += spikes["layers.0.ffn2_in"] * 24
    macs = 6 * (24 * 48 + 2 * 24 * 16 + 48 * 24 + 3 * 24 * 30) + 2 * 21 * 48
    for precision, (mac, ac) in PICOJOULE.items():
        assert made.cost.energy_mj is not None
        assert made.cost.energy_plain_mj is not None
        assert made.cost.lm_head_mj is not None
        assert made.cost.energy_mj[precision] == pytest.approx(additions * ac * 1e-9 / 6, rel=1e-9)
        assert made.cost.energy_plain_mj[precision] == pytest.approx(macs * mac * 1e-9 / 6, rel=1e-9)
        assert made.cost.lm_head_mj[precision] == pytest.approx(5 * 24 * VOCAB * mac * 1e-9 / 6, rel=1e-9)
    assert made.cost.firing_rate == pytest.approx(additions / (T * macs))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(
    ("kind", "read"), [("llama", [5]), ("gpt2", [5]), ("bart", PROMPT), ("mbart", PROMPT), ("marian", PROMPT)]
)
def test_macs_of_a_token_are_those_that_torch_counts_beams_included(kind: str, read: list[int], beams: int) -> None:
    """A decoder reads a single token: where it reads several at once, the upper half of its maps is counted, too."""
    model = plain(kind)
    with FlopCounterMode(display=False) as counter:
        made = generate(model, read, Decoding(7, beams=beams))
    cost = made.cost
    assert cost.energy_mj is not None
    assert cost.lm_head_mj is not None
    modelled = (cost.energy_mj["fp32"] + cost.lm_head_mj["fp32"]) * made.tokens_through
    # transformers makes keys and values of the source for each beam; once is enough, and the rule counts that
    again = (beams - 1) * 2 * len(read) * 32**2 if model.config.is_encoder_decoder else 0
    assert (counter.get_total_flops() / 2 - again) * 4.6e-9 == pytest.approx(modelled, rel=1e-9)
    assert cost.spikes is None
    assert cost.energy_mj == cost.energy_plain_mj
    assert not cost.note


def test_stacks_of_other_widths_are_counted_apart() -> None:
    facts = {**BART, "model_type": "bart"}
    terms = encoder_decoder_terms(facts, 5, 7, beams=2)
    widths = {term.name: term.macs for term in terms if "ffn1" in term.name}
    assert widths == {"ffn1": 5 * 32 * 48, "decoder ffn1": 2 * 7 * 32 * 40}
    same = encoder_decoder_terms({**facts, "decoder_ffn_dim": 48}, 5, 7)
    assert same == seq2seq_terms(2, 1, 32, 48, 5, 7, causal=True)
    with pytest.raises(ConfigError, match=r"t5 are not known.*encoder_layers"):
        encoder_decoder_terms({"model_type": "t5"}, 5, 7)


def test_no_energy_is_claimed_where_none_is_known() -> None:
    window = spiking("qwen2")
    window.config.sliding_window = 6
    cost = generate(window, PROMPT, Decoding(8)).cost
    assert (cost.energy_mj, cost.energy_plain_mj) == (None, None)
    assert cost.spikes
    assert "looks back 6 tokens" in cost.note
    cost = generate(spiking("llama", "uniform"), PROMPT, Decoding(3)).cost
    assert (cost.spikes, cost.energy_mj) == (None, None)
    assert cost.energy_plain_mj
    assert "low-bit" in cost.note
    neox = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 40}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt_neox", **neox, **IDS)).eval()
    cost = generate(model, PROMPT, Decoding(3)).cost
    assert "matmuls of a gpt_neox are not known" in cost.note
    assert (cost.spikes, cost.energy_mj) == (None, None)


def test_which_models_fire() -> None:
    assert not fires(plain("llama"))
    assert fires(spiking("gpt2", "lif"))
    assert not fires(spiking("gpt2", "twn"))


def test_sampling_depends_on_its_seed_and_its_settings() -> None:
    model = plain("gpt2")
    draws = [generate(model, PROMPT, Decoding(12, sample=True, seed=seed)).ids for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    greedy = generate(model, PROMPT, Decoding(12)).ids
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert generate(model, PROMPT, Decoding(12, sample=True, seed=1, **narrow)).ids == greedy  # type: ignore[arg-type]


def test_all_tokens_may_be_drawn_unless_the_model_says_otherwise() -> None:
    model = plain("gpt2")

    def drawn() -> set[int]:
        return {generate(model, PROMPT, Decoding(1, sample=True, seed=n, temperature=1000.0)).ids[0] for n in range(60)}

    assert len(drawn()) > 20
    model.generation_config.top_k = 2
    assert len(drawn()) == 2


def test_a_text_ends_where_the_tokenizer_says_if_the_model_does_not() -> None:
    model = plain("llama")
    free = generate(model, PROMPT, Decoding(12)).ids
    model.generation_config.eos_token_id = None
    ended = generate(model, PROMPT, Decoding(12), end=free[3]).ids
    assert ended == free[: free.index(free[3]) + 1]


@pytest.mark.parametrize("kind", ["llama", "bart"])
def test_a_stream_gets_each_token_and_in_the_end_all_of_the_text(kind: str) -> None:
    pieces: list[str] = []
    stream = TextStream(lambda ids: "".join(chr(65 + id % 26) for id in ids), pieces.append)
    made = generate(plain(kind), PROMPT, Decoding(10), stream=stream)
    assert "".join(pieces) == "".join(chr(65 + id % 26) for id in made.ids)
    assert len(pieces) == 10


def test_a_letter_of_several_tokens_is_said_when_it_is_whole() -> None:
    said: list[str] = []
    stream = TextStream(lambda ids: bytes(ids).decode(errors="replace"), said.append)
    stream.put(torch.tensor([[1, 2, 3]]))  # what was read
    for byte in "né€".encode():
        stream.put(torch.tensor([byte]))
    stream.put(torch.tensor([0xC3]))
    assert said == ["n", "é", "€"]
    stream.put(torch.tensor([0xFF] * 4))
    assert said[3:] == ["��"], "what can be nothing else any more is not held back"
    stream.end()
    assert "".join(said) == "né€" + 5 * "�", "what never became whole is not hidden"
