"""The spike audit: what is spike-driven passes, what only looks like it is caught and named."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

from spikelm.catalog.energy import encoder_terms
from spikelm.cli.audit_command import print_audit
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import SpikeLMError
from spikelm.measure.audit import audit
from spikelm.measure.firing import FiringMeter
from spikelm.spiking import spikify

torch.set_num_threads(1)
BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
HEADS = ["bert.pooler.dense", "classifier"]
LAYERS, HIDDEN, FFN, LENGTH, BATCH = 2, 32, 64, 8, 4


def batch() -> dict[str, Tensor]:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1:, 5:] = 0
    ids = torch.randint(0, 50, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": mask}


def bert(T: int = 0, neuron: ClassSpec = BISPIKE, attention: str = "eager") -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        intermediate_size=FFN,
        vocab_size=50,
        attn_implementation=attention,
    )
    model: nn.Module = BertForSequenceClassification(config)
    if T:
        spikify(model, neuron, T)
        model.train()(**batch())
    return model


class Encoder(nn.Module):
    """A model whose encoder does one thing, written down in the test."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Any:
        return self.encoder(x)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("T", [1, 4])
def test_spiking_bert_is_fully_spike_driven(T: int, attention: str) -> None:
    report = audit(bert(T, attention=attention), batch(), T)
    assert report.verdict == "fully"
    assert report.spike_driven
    assert report.real_valued == HEADS
    assert report.silent == []
    assert len(report.encoder) == 8 * LAYERS
    assert [row.kind for row in report.encoder[:5]] == ["linear"] * 3 + ["query x key", "attention x value"]
    assert {row.operand for row in report.encoder} == {"input", "right"}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_ann_is_not(attention: str) -> None:
    report = audit(bert(attention=attention), batch(), 1)
    assert report.verdict == "none"
    assert len(report.real_valued) == 7 * LAYERS + 2


@pytest.mark.parametrize("name", ["lif.LIF", "lif_atan.LIFAtan"])
def test_other_neurons_are_spike_driven_too(name: str) -> None:
    assert audit(bert(2, ClassSpec(f"spikelm.neurons.{name}")), batch(), 2).verdict == "fully"


def test_matmuls_inside_a_neuron_are_listed_apart() -> None:
    """PSN multiplies real inputs by its T x T matrix: its dynamics, not a matmul of the encoder."""
    report = audit(bert(2, ClassSpec("spikelm.neurons.psn.PSN")), batch(), 2)
    assert report.verdict == "fully"
    assert report.real_valued == HEADS
    inside = [row for row in report.rows if row.part == "neuron"]
    assert len(inside) == 6 * LAYERS
    assert all(row.module.endswith(("spike_in", "spike_out")) for row in inside)


def test_neuron_that_is_skipped_is_named() -> None:
    model = bert(4)
    model.bert.encoder.layer[1].intermediate.dense._forward_pre_hooks.clear()
    report = audit(model, batch(), 4)
    assert report.verdict == "partly"
    assert report.real_valued == ["bert.encoder.layer.1.intermediate.dense", *HEADS]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_noise_on_the_value_spikes_is_named(attention: str) -> None:
    model = bert(4, attention=attention)
    neuron = model.bert.encoder.layer[0].attention.self.value.spike_out
    neuron.register_forward_hook(lambda module, args, out: out + 1e-3 * torch.randn_like(out))
    (row,) = (row for row in audit(model, batch(), 4).encoder if not row.spike_driven)
    assert (row.module, row.kind) == ("bert.encoder.layer.0.attention.self", "attention x value")


def test_one_wrong_spike_is_enough() -> None:
    model = bert(4)

    def spoil(module: nn.Module, args: tuple, out: Tensor) -> None:
        out.view(-1)[5] = 1.01 * out.abs().max()

    model.bert.encoder.layer[0].output.dense.spike_in.register_forward_hook(spoil)
    assert audit(model, batch(), 4).real_valued == ["bert.encoder.layer.0.output.dense", *HEADS]


def test_silent_spikes_are_flagged() -> None:
    report = audit(bert(2, ClassSpec("spikelm.neurons.lif.LIF", {"theta": 1e6})), batch(), 2)
    assert report.verdict == "fully"
    assert len(report.silent) == 7 * LAYERS
    assert {row.rate for row in report.encoder} == {0.0}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_uniform_attention_does_not_pass_for_spikes(attention: str) -> None:
    """Keys of zero make all scores equal, so attention holds {0, 1/n}; the values are real all the same."""
    model = bert(attention=attention)
    for layer in model.bert.encoder.layer:
        nn.init.zeros_(layer.attention.self.key.weight)
        nn.init.zeros_(layer.attention.self.key.bias)
    one = {name: tensor[1:2] for name, tensor in batch().items()}
    rows = audit(model, one, 1).encoder
    assert all(row.silent for row in rows if row.kind == "query x key")
    assert not any(row.spike_driven for row in rows if row.kind != "query x key")


def test_one_bit_weights_do_not_pass_for_spikes() -> None:
    class Binary(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.abs().mean() * weight.sign()

    model = bert()
    for module in model.bert.encoder.modules():
        if isinstance(module, nn.Linear):
            parametrize.register_parametrization(module, "weight", Binary())
    assert audit(model, batch(), 1).verdict == "none"
    weight = nn.Parameter(torch.randn(6, 6))
    product = Encoder(Calls(lambda x: x @ (weight.sign() * 0.5)))
    product.encoder.weight = weight
    assert audit(product, {"x": torch.randn(4, 6)}, 1).verdict == "none"


def test_every_kind_of_product_is_caught() -> None:
    weight = torch.randn(6, 6)
    products = {
        "matmul": (lambda x: x @ weight, 4 * 6 * 6),
        "batched": (lambda x: torch.bmm(x.expand(3, 4, 6), weight.expand(3, 6, 6)), 3 * 4 * 6 * 6),
        "einsum": (lambda x: torch.einsum("bi,ji->bj", x, weight), 4 * 6 * 6),
        "baddbmm": (lambda x: torch.baddbmm(x.expand(1, 4, 6), x[None], weight[None]), 4 * 6 * 6),
        "vector": (lambda x: x @ weight[0], 4 * 6),
        "dot": (lambda x: x[0] @ weight[0], 6),
        "convolution": (lambda x: nn.functional.conv1d(x[None], weight[:2, :4, None]), 6 * 4 * 2),
        "attention": (lambda x: nn.functional.scaled_dot_product_attention(x, weight, weight), 2 * 4 * 6 * 6),
    }
    spikes = 0.7 * torch.tensor([[1.0, 0, -1, 0, 0, 1], [0, 1, 0, 0, 0, 0], [-1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0]])
    for name, (function, macs) in products.items():
        model = Encoder(Calls(function))
        real = audit(model, {"x": torch.randn(4, 6)}, 1)
        assert real.verdict == "none", name
        assert sum(row.macs for row in real.rows) == macs, name
        driven = audit(model, {"x": spikes}, 1)
        assert driven.rows[0].operand == "left", name
        assert driven.verdict == ("partly" if name == "attention" else "fully"), name


def test_recurrent_kernels_count_as_real() -> None:
    report = audit(Encoder(nn.LSTM(6, 5)), {"x": torch.randn(3, 2, 6)}, 1)
    assert report.verdict == "none"
    assert report.rows


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_macs_agree_with_torch_and_with_the_energy(attention: str) -> None:
    report = audit(bert(4, attention=attention), batch(), 4)
    per_example = sum(term.macs for term in encoder_terms(LAYERS, HIDDEN, FFN, LENGTH))
    assert sum(row.macs for row in report.encoder) == 4 * BATCH * per_example
    eager = bert(4).eval()  # torch counts a fused attention kernel as nothing on a CPU
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        eager(**batch())
    assert 2 * sum(row.macs for row in report.rows) == counter.get_total_flops()


def test_rates_agree_with_the_firing_meter() -> None:
    model = bert(4)
    with FiringMeter(model) as meter:
        report = audit(model, batch(), 4)
    rates = meter.by_site()
    sites = [term.site for term in encoder_terms(LAYERS, HIDDEN, FFN, LENGTH)]
    assert [row.rate for row in report.encoder] == pytest.approx([rates[site] for site in sites if site])


def test_inference_mode_changes_nothing() -> None:
    model = bert(2)
    expected = audit(model, batch(), 2)
    with torch.inference_mode():
        assert audit(model, batch(), 2) == expected


def test_model_is_left_as_it_was() -> None:
    model = bert(1)
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    model.train()
    model.classifier.eval()
    audit(model, batch(), 1)
    with pytest.raises(ValueError, match="input_ids"):
        audit(model, {}, 1)
    assert model.training
    assert not model.classifier.training
    assert hooks == sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_a_model_without_an_encoder_is_named() -> None:
    with pytest.raises(SpikeLMError, match=r"'encoder'[\s\S]*layer"):
        audit(nn.Sequential(OrderedDict(layer=nn.Linear(2, 2))), {"input": torch.ones(1, 2)}, 1)


def test_what_a_result_keeps_is_json() -> None:
    model = bert(4)
    model.bert.encoder.layer[1].output.dense._forward_pre_hooks.clear()
    kept = json.loads(json.dumps(audit(model, batch(), 4).to_dict()))
    assert (kept["verdict"], kept["operations"], kept["spike_driven"]) == ("partly", "MACs", False)


def test_the_table_has_one_line_for_equal_matmuls_of_all_layers() -> None:
    model = bert(4)
    model.bert.encoder.layer[1].output.dense._forward_pre_hooks.clear()
    console = Console(width=80)
    with console.capture() as capture:
        print_audit(audit(model, batch(), 4), console)
    text = capture.get()
    assert "bert.encoder.layer.*.output.dense" in text
    assert "input 1 of 2" in text
    assert "…" not in text
    assert "Real-valued inside the encoder: bert.encoder.layer.1.output.dense" in text
