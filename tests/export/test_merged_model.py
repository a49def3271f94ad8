"""Merged models of every architecture: the trained one in double precision, exact in int8, events, and the cache."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from spikelm.catalog.kinds import LLAMA_FAMILY
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import AttentionSpec, NormSpec, QuantizerSpec
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.export.compare import check_merge
from spikelm.export.convert import export, plain_class
from spikelm.export.event import linear as event
from spikelm.export.event.library import library, paths
from spikelm.export.linears import int8_weights
from spikelm.export.merged_model import Export, Merged, auto_class, export_of
from spikelm.spiking import calibrate, neurons, spikify
from spikelm.spiking.kv_cache import SpikeCache
from spikelm.spiking.sites import architecture_of

VOCAB = 60
DECODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GROUPED = {**DECODER, "num_key_value_heads": 2, "head_dim": 8}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
PAIRS: dict[str, Any] = {
    **{f"{part}_layers": 2 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 4 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 48 for part in ("encoder", "decoder")},
    **{"d_model": 32, "max_position_embeddings": 64, "init_std": 0.3},
    **{"decoder_start_token_id": 2, "forced_eos_token_id": 2},
}
MARKS = {"vocab_size": VOCAB, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
WRITERS = ("llama", "gpt2", "bart", "mbart", "marian")
RESIDUAL = {"steps": 3, "scale": "token"}


@cache
def _plain(kind: str) -> Any:
    torch.manual_seed(0)
    sizes = GPT2 if kind == "gpt2" else PAIRS if kind in ("bart", "mbart", "marian") else GROUPED
    if kind in ("bert", "roberta"):
        sizes = {**DECODER, "num_labels": 3}
    config = AutoConfig.for_model(kind, **MARKS, **sizes, **({} if sizes is PAIRS else {"initializer_range": 0.3}))
    auto: Any = AutoModelForCausalLM
    if kind in ("bert", "roberta"):
        auto = AutoModelForSequenceClassification
    elif sizes is PAIRS:
        auto = AutoModelForSeq2SeqLM
    model = auto.from_config(config).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # without them sums of whole numbers lie on thresholds of zero
                parameter.normal_(std=0.1)
    return model


def batch_of(model: Any) -> dict[str, Tensor]:
    """Three rows, one of them padded, with what a model predicts as `labels`."""
    torch.manual_seed(1)
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 6:] = 0
    batch = {"input_ids": torch.randint(3, VOCAB, (3, 9)), "attention_mask": mask, "labels": torch.zeros(3, 9)}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(3, VOCAB, (3, 7))
    elif architecture_of(model) in ("bert", "roberta"):
        batch["labels"] = torch.zeros(3)
    return batch


def inputs_of(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in batch.items() if name != "labels"}


def trained(kind: str, neuron: str, T: int, **options: Any) -> Any:
    """A small random model in double precision whose amplitudes are set."""
    model = spikify(copy.deepcopy(_plain(kind)), neuron, T, **options)
    return calibrate(model, [inputs_of(batch_of(model))]).eval()


@pytest.mark.parametrize("kind", [*WRITERS, "qwen3", "gemma2", "cohere"])
def test_the_merged_model_is_the_trained_one_in_every_architecture(kind: str) -> None:
    """In int8 it is the trained one with rounded weights; `check_merge` compares both in double precision."""
    model = trained(kind, "bispike", 2)
    assert check_merge(model, batch_of(model), "int8") < 1e-12
    weights = [name for name in export(model).state_dict() if name.endswith("_proj.weight")]
    assert all("linear" in name for name in weights), "no weight is there twice"


@pytest.mark.slow
@pytest.mark.parametrize("kind", LLAMA_FAMILY)
def test_and_in_all_that_are_built_like_llama(kind: str) -> None:
    model = trained(kind, "bispike", 1)
    assert check_merge(model, batch_of(model), "int8") < 1e-12


@pytest.mark.parametrize(
    ("kind", "neuron", "T", "options"),
    [
        ("gpt2", "residual", 2, {"heights": "data"}),
        ("gpt2", "lif_atan", 2, {}),
        ("llama", "lif_sigmoid", 2, {"theta": 0.3}),
        ("llama", "residual", 1, {**RESIDUAL, "rotation": "hadamard"}),
        ("llama", "phase", 1, {}),
        ("gpt2", "dynamic", 1, {}),
        ("marian", "residual", 1, {**RESIDUAL, "rotation": "hadamard"}),
        ("bart", "lif", 2, {"cross": "mean"}),
        ("bart", "bispike", 1, {"alpha": "learnable"}),
        ("mbart", "gif", 1, {}),
        ("bert", "psn", 2, {}),
        ("bert", "sign", 1, {}),
        ("bert", "residual", 1, {**RESIDUAL, "rotation": "hadamard"}),
        ("bert", "bispike", 1, {"norm": NormSpec("spikelm.operators.bspn.BSPN")}),
        ("bert", "bispike", 1, {"attention": AttentionSpec("spikelm.operators.ptsoftmax.PTSoftmax")}),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int) else "-".join(value),
)
def test_every_neuron_is_read(kind: str, neuron: str, T: int, options: dict[str, Any]) -> None:
    model = trained(kind, neuron, T, **options)
    assert isinstance(export(model), Merged)
    assert check_merge(model, batch_of(model), "int8") < 1e-12


@pytest.mark.parametrize(
    ("kind", "name"),
    [("bert", "binary.Binary"), ("llama", "binary.Binary"), ("bart", "ternary.TernaryWeights"),
     ("roberta", "uniform.UniformWeights")],
)  # fmt: skip
def test_low_bit_weights_are_exact_in_int8(kind: str, name: str) -> None:
    """The oracle is the trained model itself: nothing is rounded but its few levels, which bytes hold."""
    width = {"width": 4} if "uniform" in name else {}
    spec = QuantizerSpec(f"spikelm.weights.{name}", width)
    model = trained(kind, "bispike", 2, weights=spec)
    made, batch = export(model, "int8"), inputs_of(batch_of(model))
    torch.testing.assert_close(made(**batch).logits, model(**batch).logits, rtol=0, atol=1e-11)
    kinds = {name: tensor.dtype for name, tensor in made.state_dict().items()}
    assert torch.int8 in kinds.values()
    assert not [name for name in kinds if "quantizer" in name]


def test_few_levels_are_found_in_each_channel() -> None:
    weight = torch.tensor([[0.3, -0.9, 0.0], [0.0, 0.0, 0.0], [0.2, -0.2, 0.2], [1.0, 0.5001, -0.1]])
    whole, scale = int8_weights(weight)
    assert whole[:3].tolist() == [[1, -3, 0], [0, 0, 0], [1, -1, 1]]
    torch.testing.assert_close(scale[[0, 2, 3]], torch.tensor([0.3, 0.2, 1 / 127]))
    assert whole[3].tolist() == [127, 64, -13]


@pytest.mark.skipif(library() is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("kind", "neuron", "options", "T"),
    [
        *((kind, "bispike", {}, T) for kind, T in zip(WRITERS, (1, 2, 1, 2, 1), strict=True)),
        ("llama", "residual", {**RESIDUAL, "rotation": "hadamard"}, 1),
        ("gpt2", "residual", {"heights": "data"}, 2),
        ("marian", "lif_atan", {}, 2),
        ("bart", "bispike", {"weights": QuantizerSpec("spikelm.weights.binary.Binary")}, 2),
    ],
)
def test_events_have_the_logits_of_int8(
    kind: str, neuron: str, options: dict[str, Any], T: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event, "crossing", lambda path: 1.0)
    model = trained(kind, neuron, T, **options).float()
    batch = inputs_of(batch_of(model))
    one = {name: value[:1, :1] for name, value in batch.items()}
    dense, made = export(model, "int8"), export(model, "event")
    for path in paths():
        monkeypatch.setattr(event, "path_in_use", lambda path=path: path)
        for rows in (batch, one):
            assert torch.equal(made(**rows).logits, dense(**rows).logits), path


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", WRITERS)
def test_it_writes_what_the_trained_model_writes_with_and_without_the_cache(kind: str, beams: int) -> None:
    model = trained(kind, "bispike", 2)
    made, batch = export(model), batch_of(model)
    how = {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": beams, "do_sample": False}
    read = {"input_ids": batch["input_ids"]}
    wanted = model.generate(**read, **how)
    cached = made.generate(**read, **how, return_dict_in_generate=True)
    assert torch.equal(cached.sequences, wanted)
    assert torch.equal(made.generate(**read, **how, use_cache=False), wanted)
    cache = getattr(cached.past_key_values, "self_attention_cache", cached.past_key_values)
    assert isinstance(cache, SpikeCache)


def tied(kind: str) -> Any:
    """A trained model whose LM head shares the embeddings' weights."""
    if kind != "llama":
        return trained(kind, "bispike", 2)
    plain = copy.deepcopy(_plain(kind))
    plain.config.tie_word_embeddings = True
    plain.tie_weights()
    model = spikify(plain, "bispike", 2)
    return calibrate(model, [inputs_of(batch_of(model))]).eval()


@pytest.mark.parametrize("kind", WRITERS)
def test_an_int8_head_rounds_what_it_reads_and_nothing_else_changes(kind: str, tmp_path: Path) -> None:
    """The oracle multiplies whole numbers, rounded by hand, of what the head in floats reads."""
    model = tied(kind)
    made, headed = export(model, "int8"), export(model, "int8", int8_head=True)
    read: list[Tensor] = []
    made.get_output_embeddings().register_forward_pre_hook(lambda head, args: read.append(args[0]))
    batch = inputs_of(batch_of(model))
    made(**batch)
    weight, x = made.get_output_embeddings().weight, read[0]
    channel, token = weight.abs().amax(1) / 127, x.abs().amax(-1, keepdim=True) / 127
    whole = (x / token).round().long() @ (weight / channel[:, None]).round().long().T
    wanted = whole * channel * token + getattr(made, "final_logits_bias", 0.0)
    torch.testing.assert_close(headed(**batch).logits, wanted, rtol=1e-12, atol=1e-12)

    before, after = made.state_dict(), headed.state_dict()
    assert after["lm_head.weight"].dtype == torch.int8
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if "lm_head" not in name)
    headed.float().save_pretrained(tmp_path)
    loaded = auto_class(headed).from_pretrained(tmp_path)
    assert torch.equal(loaded(**batch).logits, headed(**batch).logits)
    assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight.float())
    assert export_of(loaded.config) == Export("int8", int8_head=True)


def test_an_int8_head_writes_the_same_with_the_cache_and_without() -> None:
    model = tied("gpt2").float()
    dense, events = export(model, "int8", int8_head=True), export(model, "event", int8_head=True)
    ids = batch_of(model)["input_ids"]
    how = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    assert torch.equal(dense.generate(ids, **how), dense.generate(ids, **how, use_cache=False))
    assert torch.equal(dense(ids).logits, events(ids).logits)


def test_an_int8_head_is_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match="has no LM head"):
        export(trained("bert", "bispike", 1), "int8", int8_head=True)
    with pytest.raises(ConfigError, match="goes with linears of int8"):
        export(trained("gpt2", "bispike", 1), int8_head=True)


@pytest.mark.parametrize(("kind", "precision"), [*((kind, "int8") for kind in (*WRITERS, "roberta")), ("bart", "fp32")])
def test_auto_classes_load_it(kind: str, precision: str, tmp_path: Path) -> None:
    neuron = "lif_atan" if kind == "roberta" else "bispike"  # BERT's block knows the latter
    model = trained(kind, neuron, 2).float()
    made, batch = export(model, precision), inputs_of(batch_of(model))
    made.save_pretrained(tmp_path)
    loaded = auto_class(made).from_pretrained(tmp_path)
    assert type(loaded) is type(made)
    assert loaded.config.model_type == f"spikelm_{kind}"
    assert torch.equal(loaded(**batch).logits, made(**batch).logits)


def test_exact_layers_are_the_first_of_each_stack() -> None:
    made = export(trained("bart", "bispike", 1), "int8", 1)
    kinds = {name: tensor.dtype for name, tensor in made.state_dict().items() if name.endswith("linear.weight")}
    assert {kind for name, kind in kinds.items() if "layers.0." in name} == {torch.float64}
    assert {kind for name, kind in kinds.items() if "layers.1." in name} == {torch.int8}


def test_the_trained_model_stays_as_it_was() -> None:
    model = trained("llama", "bispike", 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export(model, "int8")
    assert plain_class(model) is type(_plain("llama"))
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_what_cannot_be_merged_says_why() -> None:
    model = trained("llama", "bispike", 1)
    with pytest.raises(ConfigError, match="exported already"):
        export(export(model))
    with pytest.raises(ConfigError, match="exact_layers=3"):
        export(model, "int8", 3)
    with pytest.raises(ConfigError, match="no Auto class"):
        export(spikify(copy.deepcopy(_plain("llama")).model, "bispike", 1))
    with pytest.raises(ConfigError, match="were never set"):
        export(spikify(copy.deepcopy(_plain("gpt2")), "bispike", 1))
    levels = trained("bert", "elastic", 1, width=2)
    assert check_merge(levels, batch_of(levels)) < 1e-12
    with pytest.raises(ConfigError, match=r"Elastic at .* no products of bytes"):
        export(levels, "int8")(**inputs_of(batch_of(levels)))


def test_a_variant_of_attention_is_merged() -> None:
    model = trained("bert", "bispike", 1, variant=VariantConfig(attention="boolean", width=0.5))
    assert check_merge(model, batch_of(model), "int8") < 1e-12


def test_another_model_is_not_taken_for_the_trained_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that loses a threshold is found before anything is written."""
    model = trained("gpt2", "bispike", 1)

    def wrong(*args: Any) -> Any:
        made = export(*args)
        made.transformer.h[1].attn.spike_in.threshold.mul_(1.5)
        return made

    monkeypatch.setattr("spikelm.export.compare.export", wrong)
    with pytest.raises(SpikeLMError, match="the exported model is another one"):
        check_merge(model, batch_of(model))


def test_neurons_of_keys_and_values_stay() -> None:
    model = trained("llama", "bispike", 1)
    left = [neuron.site for neuron in neurons(export(model))]
    assert {site.rpartition(".")[2] for site in left} == {"key_out", "value_out"}
