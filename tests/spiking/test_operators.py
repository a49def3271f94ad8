"""Operators put into a model: they change what they should, survive saving, and are refused where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2Model,
    RobertaConfig,
    RobertaModel,
)

from spikelm.config.compose import load_config
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import AttentionSpec, ClassSpec, NormSpec
from spikelm.errors import ConfigError
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.elastic import Elastic
from spikelm.operators.bspn import BSPN
from spikelm.operators.ptsoftmax import PTSoftmax
from spikelm.spiking import calibrate, load_pretrained, spikify, spiking_class
from spikelm.spiking.conversion import Conversion

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
BOTH: dict[str, Any] = {"attention": AttentionSpec.of(PTSoftmax), "norm": NormSpec.of(BSPN, warmup=2)}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def batch() -> dict[str, Tensor]:
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[0, 4:] = 0
    return {"input_ids": torch.randint(5, 60, (3, 7)), "attention_mask": mask}


def plain() -> Any:
    return BertForSequenceClassification(BertConfig(**SIZES))


def by_hand(model: Any, words: dict[str, Tensor]) -> Tensor:
    """The last hidden states of a BERT without neurons, with both operators, written out."""
    base = model.base_model
    x = base.embeddings(input_ids=words["input_ids"])
    mask = (1.0 - words["attention_mask"][:, None, None].float()) * torch.finfo(torch.float32).min
    for block in base.encoder.layer:
        own = block.attention.self
        q, k, v = (linear(x).unflatten(-1, (2, 16)).transpose(1, 2) for linear in (own.query, own.key, own.value))
        ceiled = (q @ k.mT / 4 + mask).ceil()
        powers = 2 ** (ceiled - ceiled.amax(-1, keepdim=True))
        total = powers.sum(-1, keepdim=True)
        low, high = 2 ** total.log2().floor(), 2 ** total.log2().ceil()
        weights = powers / torch.where(total - low < high - total, low, high)
        context = (weights @ v).transpose(1, 2).flatten(-2)
        x = normed(block.attention.output.LayerNorm, x + block.attention.output.dense(context))
        x = normed(block.output.LayerNorm, x + block.output.dense(block.intermediate(x)))
    return x


def normed(norm: Any, x: Tensor) -> Tensor:
    groups = x.unflatten(-1, (2, 16))
    scale = 2 ** torch.ceil(torch.log2(groups.abs().mean(-1, keepdim=True) + 1e-5))
    return norm.weight * (groups / scale).flatten(-2) / torch.sqrt(norm.phi + 1e-5) + norm.bias


def test_a_plain_model_computes_with_both_operators() -> None:
    model, words = spikify(plain(), None, T=1, **BOTH), batch()
    for _ in range(3):
        model.train()(**words).logits.sum().backward()
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model.base_model(**words).last_hidden_state, by_hand(model, words))  # type: ignore[operator]


def test_only_the_blocks_are_changed_and_parameters_keep_their_names() -> None:
    model = plain()
    names, weight = dict(model.named_parameters()), model.bert.encoder.layer[0].output.LayerNorm.weight
    converted: Any = spikify(model, None, T=1, **BOTH)
    assert set(dict(converted.named_parameters())) == set(names)
    assert converted.bert.encoder.layer[0].output.LayerNorm.weight is weight
    assert isinstance(converted.bert.embeddings.LayerNorm, nn.LayerNorm)
    assert sum(isinstance(module, BSPN) for module in converted.modules()) == 4
    assert sum(isinstance(module, PTSoftmax) for module in converted.modules()) == 2
    assert {module.groups for module in converted.modules() if isinstance(module, BSPN)} == {2}


@pytest.mark.parametrize("neuron", [None, ClassSpec.of(BiSpike, k=2.0)])
@pytest.mark.parametrize("only", ["attention", "norm", "both"])
def test_a_saved_model_comes_back_with_its_operators_and_their_state(
    tmp_path: Path, neuron: ClassSpec | None, only: str
) -> None:
    chosen = BOTH if only == "both" else {only: BOTH[only]}
    words, model = batch(), spikify(plain(), neuron, T=2 if neuron else 1, **chosen)
    for _ in range(3):
        model.train()(**words).logits.sum().backward()
    model.eval()
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    again = load_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(again(**words).logits, model(**words).logits)
    counted = [int(module.steps) for module in again.modules() if isinstance(module, BSPN)]
    assert counted == ([] if only == "attention" else [3] * 4)


def test_a_plain_checkpoint_gives_its_weights_and_the_statistics_start_anew(tmp_path: Path) -> None:
    model = plain()
    torch.nn.init.uniform_(model.bert.encoder.layer[1].output.LayerNorm.weight)
    model.save_pretrained(tmp_path)
    settings = BertConfig.from_pretrained(tmp_path)
    Conversion(T=1, **BOTH).record_in(settings)
    loaded: Any = spiking_class(BertForSequenceClassification).from_pretrained(tmp_path, config=settings)
    for name, value in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), value), name
    for norm in (module for module in loaded.modules() if isinstance(module, BSPN)):
        assert (int(norm.steps), norm.phi.tolist(), norm.feedback.tolist()) == (0, [1.0] * 32, [0.0] * 32)


def test_every_parameter_of_the_blocks_has_a_gradient() -> None:
    model: Any = spikify(plain(), ClassSpec.of(BiSpike, k=2.0), T=2, **BOTH)
    model.train()(**batch()).logits.square().sum().backward()
    silent = [name for name, p in model.bert.encoder.named_parameters() if p.grad is None or not p.grad.any()]
    assert not [name for name in silent if not name.endswith("key.bias")], silent


def test_the_gradient_of_the_released_code_leaves_queries_and_keys_alone() -> None:
    released = {"attention": AttentionSpec.of(PTSoftmax, gradient="released")}
    model: Any = spikify(plain(), None, T=1, **released)
    model.train()(**batch()).logits.square().sum().backward()
    own = model.bert.encoder.layer[0].attention.self
    assert not own.query.weight.grad.any()
    assert own.value.weight.grad.any()


def test_calibrating_is_no_step_of_the_norm() -> None:
    model = calibrate(spikify(plain(), ClassSpec.of(BiSpike, k=2.0), T=2, **BOTH), batch())
    assert {int(module.steps) for module in model.modules() if isinstance(module, BSPN)} == {0}


def test_probabilities_are_rounded_behind_the_operator() -> None:
    variant = VariantConfig(attention="quantized")
    model: Any = spikify(plain(), ClassSpec.of(Elastic), T=1, variant=variant, **BOTH)
    seen: list[Tensor] = []
    probabilities = model.bert.encoder.layer[0].attention.self.spike_probs
    probabilities.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.train()(**batch())
    model.eval()(**batch())
    mantissa, _ = torch.frexp(seen[-1].detach())
    assert bool(((mantissa == 0.5) | (mantissa == 0)).all())


def test_roberta_takes_them_and_others_refuse() -> None:
    model = spikify(RobertaModel(RobertaConfig(**SIZES)), None, T=1, **BOTH)
    assert sum(isinstance(module, BSPN) for module in model.modules()) == 4
    gpt2 = GPT2Model(GPT2Config(vocab_size=60, n_embd=32, n_layer=1, n_head=2))
    for part in ("attention", "norm"):
        with pytest.raises(ConfigError, match=f"{part}=.*is for a BERT or RoBERTa, not for gpt2"):
            spikify(gpt2, None, T=1, **{part: BOTH[part]})
    assert type(gpt2) is GPT2Model


def test_what_cannot_be_together_is_refused_and_the_model_left_as_it_was() -> None:
    model = BertModel(BertConfig(**SIZES))
    with pytest.raises(ConfigError, match="no softmax"):
        spikify(model, "bispike", T=1, variant=VariantConfig(attention="boolean"), **BOTH)
    with pytest.raises(ConfigError, match=r"norm\.warmup=0 is not valid"):
        spikify(model, None, T=1, norm=NormSpec.of(BSPN, warmup=0))
    with pytest.raises(ConfigError, match="is no NormOperator"):
        spikify(model, None, T=1, norm=NormSpec.of(PTSoftmax))
    assert type(model) is BertModel
    assert not any(isinstance(module, BSPN | PTSoftmax) for module in model.modules())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["attention=ptsoftmx"], "attention=ptsoftmx is not a known attention; did you mean ptsoftmax"),
        (["attention=ptsoftmax", "attention.gradient=none"], "attention.gradient=none is not valid"),
        (["norm=bspn", "norm.warmup=0"], "norm.warmup=0 is not valid"),
        (["norm=bspn", "+norm.groups=3"], "unknown key norm.groups"),
        (["norm=bspn", "task=sum/xsum"], "norm=bspn is for bert and roberta; backbone=bart_mini is a bart"),
        (["norm=bspn", "trainer.activation_checkpointing=true"], "computes each one twice"),
        (["attention=ptsoftmax", "neuron=sign", "variant.attention=boolean"], "takes the place of a softmax"),
    ],
)
def test_the_command_line_says_what_is_wrong(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(words)
    assert says in str(refused.value)
