"""Keys and values whose salient channels are found by what the attention multiplies them by."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, BartModel, BertModel, GPT2Model

from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import AttentionSpec
from spikelm.errors import ConfigError
from spikelm.operators.ptsoftmax import PTSoftmax
from spikelm.rivals.spikebert.spikformer import SpikformerConfig, SpikformerModel
from spikelm.rivals.spikingformer.membrane_bert import MembraneBertConfig, MembraneBertForSequenceClassification
from spikelm.spiking import calibrate, load_pretrained, neurons, spikify
from spikelm.spiking.saved import sdpa

GIF_OPTIONS = {"low_share": 0.75, "saliency": "operands"}
KINDS = ["bert", "spikingformer", "gpt2", "llama", "bart"]


@pytest.fixture
def plain(small: Any, small_gpt2: Any, small_seq2seq: Any) -> Any:
    def make(kind: str) -> Any:
        if kind == "bert":
            return BertModel(small(initializer_range=0.3))
        if kind == "spikingformer":
            sizes = small(initializer_range=0.3).to_diff_dict()
            return MembraneBertForSequenceClassification(MembraneBertConfig(**{**sizes, "model_type": kind}))
        if kind == "gpt2":
            return GPT2Model(small_gpt2(initializer_range=0.3))
        if kind == "bart":
            return BartModel(small_seq2seq("bart"))
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
        layers = {"num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 90, "initializer_range": 0.3}
        return AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **sizes, **layers))

    return make


def batch() -> dict[str, Tensor]:
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[0, 4:] = 0
    return {"input_ids": torch.randint(3, 90, (3, 7)), "attention_mask": mask}


class Seen:
    """What enters every attention's first product, and what every neuron of keys and values read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
        self.calls: dict[Any, tuple[Tensor, Tensor, Any, Any]] = {}
        self.read: dict[Any, Tensor] = {}
        plainly = sdpa.sdpa_attention_forward

        def record(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, *args: Any, **kw: Any) -> Any:
            self.calls.setdefault(module, (query.detach(), key.detach(), mask, kw.get("is_causal")))
            return plainly(module, query, key, value, mask, *args, **kw)

        monkeypatch.setattr(sdpa, "sdpa_attention_forward", record)
        for neuron in waiters(model):
            neuron.register_forward_pre_hook(lambda n, args: self.read.setdefault(n, args[0].detach()))


def waiters(model: Any) -> list[Any]:
    return [neuron for neuron in neurons(model) if neuron.met_by]  # type: ignore[attr-defined]


def attention_map(module: Any, query: Tensor, key: Tensor, mask: Any, causal: Any) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)
    if module.is_causal if causal is None else causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return scores.softmax(-1)


def by_gradient(neuron: Any, seen: Seen, module: Any) -> Tensor:
    """x times the gradient of the product's |.|^2 / 2 by x, summed over all tokens: another way to (O^T O x) x."""
    query, key, mask, causal = seen.calls[module]
    heads = key.shape[1]
    x = seen.read[neuron].flatten(0, 1).clone().requires_grad_()
    split = x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat_interleave(query.shape[1] // heads, 1)
    key = key.repeat_interleave(query.shape[1] // heads, 1)
    if neuron.met_by == "query":
        product = query @ split.mT
    else:
        product = attention_map(module, query, key, mask, causal) @ split
    (grad,) = torch.autograd.grad(product.square().sum() / 2, x)
    return (grad * x.detach()).flatten(0, 1).double().sum(0)


@pytest.mark.parametrize("T", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_salient_channels_are_those_of_the_other_operand(
    kind: str, T: int, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spikify(plain(kind), "gif", T=T, **GIF_OPTIONS)
    seen = Seen(monkeypatch, model)
    calibrate(model, batch())
    assert len(waiters(model)) == {"bart": 12}.get(kind, 4)
    homes = {neuron: module for module in seen.calls for neuron in module.modules()}
    for neuron in waiters(model):
        saliency = by_gradient(neuron, seen, homes[neuron])
        lowest = saliency.sort().values[int(0.75 * len(saliency)) - 1]
        assert torch.equal(neuron.salient, saliency > lowest), neuron.site
        assert neuron.ready
        assert neuron.kept is None


@pytest.mark.parametrize("kind", KINDS)
def test_training_calibrates_on_its_first_batch_and_the_mask_is_saved(kind: str, plain: Any, tmp_path: Any) -> None:
    model = spikify(plain(kind), "gif", T=2, **GIF_OPTIONS).train()
    other = copy.deepcopy(model)
    data = batch()
    model(**data)[0].sum().backward()
    assert all(neuron.ready and neuron.salient.any() for neuron in waiters(model))  # type: ignore[attr-defined]
    assert not any(neuron.ready for neuron in waiters(other)), "a copy is independent"
    model.save_pretrained(tmp_path)
    loaded = load_pretrained(tmp_path).eval()
    for ours, theirs in zip(waiters(model), waiters(loaded), strict=True):
        assert torch.equal(ours.salient, theirs.salient)
    torch.testing.assert_close(loaded(**data)[0], model.eval()(**data)[0])


def test_keys_that_are_rotated_meet_rotated_queries(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = spikify(plain("llama"), "gif", T=1, rotation="hadamard", **GIF_OPTIONS)
    seen = Seen(monkeypatch, model)
    calibrate(model, batch())
    attention = model.model.layers[0].self_attn
    saliency = by_gradient(attention.spike_key, seen, attention)
    assert torch.equal(attention.spike_key.salient, saliency > saliency.sort().values[int(0.75 * len(saliency)) - 1])


def test_an_attention_that_hands_nothing_over_is_refused_at_the_first_batch(small: Any) -> None:
    model = spikify(BertModel(small(attn_implementation="eager")), "gif", T=1, **GIF_OPTIONS)
    with pytest.raises(ConfigError, match=r"not eager\n.*saliency=weights"):
        calibrate(model, batch())
    assert not any(neuron.ready or neuron.kept is not None for neuron in waiters(model))
    model.set_attn_implementation(sdpa.NAME)
    calibrate(model, batch())
    model.set_attn_implementation("eager")
    assert model.eval()(**batch()).last_hidden_state.isfinite().all(), "the mask is set: any attention will do"


def test_a_replaced_softmax_is_refused_and_the_model_left_alone(small: Any) -> None:
    for changes in (
        {"variant": VariantConfig(attention="quantized")},
        {"attention": AttentionSpec.of(PTSoftmax)},
    ):
        model = BertModel(small())
        with pytest.raises(ConfigError, match="saliency=weights"):
            spikify(model, "gif", T=1, **GIF_OPTIONS, **changes)  # type: ignore[arg-type]
        assert type(model) is BertModel
        assert not list(neurons(model))


def test_a_first_batch_behind_a_cache_is_refused(plain: Any) -> None:
    model = calibrate(spikify(plain("llama"), "gif", T=1, **GIF_OPTIONS), batch()).eval()
    with torch.no_grad():
        past = model(**batch(), use_cache=True).past_key_values
        for neuron in waiters(model):
            neuron.forget()
            neuron.train()
        with pytest.raises(ConfigError, match="continues a cache"):
            model(input_ids=torch.ones(3, 1, dtype=torch.long), past_key_values=past)


def test_weights_wait_for_nothing(small: Any) -> None:
    model = spikify(BertModel(small()), "gif", T=1)
    assert not waiters(model)


def test_a_model_without_a_softmax_is_refused() -> None:
    config = SpikformerConfig(vocab_size=90, hidden_size=32, num_hidden_layers=1, num_attention_heads=4)
    with pytest.raises(ConfigError, match="no query and no softmax reads the spikes of query_out"):
        spikify(SpikformerModel(config), "gif", T=1, **GIF_OPTIONS)
