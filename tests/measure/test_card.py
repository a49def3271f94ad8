"""The energy card against sums by hand, against the paper's terms, NeuroBench and SpikingJelly.

The test against NeuroBench runs where it is installed: `pip install --no-deps --target FOLDER neurobench`, and FOLDER
on PYTHONPATH.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, DynamicCache, LlamaConfig, LlamaForCausalLM

from spikelm.catalog.counts import ProductCount
from spikelm.catalog.energy import encoder_terms, energy_mj, spiking_energy_mj
from spikelm.catalog.estimators import FP32, Hierarchy, traffic
from spikelm.catalog.expected_counts import expected_counts
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import SpikeLMError
from spikelm.measure import energy_card
from spikelm.measure.card import EnergyCard as Card
from spikelm.measure.firing import FiringMeter
from spikelm.measure.given_rate import GivenRate
from spikelm.measure.trained_model import FiringRates, Measured, SpikeDriven
from spikelm.neurons import Neuron
from spikelm.spiking import calibrate, spikify
from spikelm.store.atomic import plain
from spikelm.store.result import EnergyCard

torch.set_num_threads(1)
HIDDEN, FFN, LENGTH, ROWS = 32, 64, 16, 4
SIZES: dict[str, Any] = {
    **{"vocab_size": 50, "hidden_size": HIDDEN, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "intermediate_size": FFN, "max_position_embeddings": LENGTH},
}
BATCH = {"input_ids": torch.randint(50, (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))}


def bert(neuron: Any = None, T: int = 1, attention: str = "eager", **arguments: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = BertModel(BertConfig(**SIZES, attn_implementation=attention))
    return model.eval() if neuron is None else calibrate(spikify(model, neuron, T=T, **arguments), BATCH).eval()


def product(card: Card, ending: str, kind: str = "linear") -> ProductCount:
    (found,) = [one for one in card.counts.products if one.module.endswith(ending) and one.kind == kind]
    return found


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_one_layer_of_bert_by_hand(attention: str) -> None:
    """16 (4 * 32^2 + 2 * 32 * 64) + 2 * 16^2 * 32 for each of four texts, and a pooler of 32^2."""
    card = energy_card(bert(attention=attention), BATCH)
    counts = card.counts
    assert counts.rows == ROWS
    assert sum(one.macs for one in counts.blocks) == ROWS * 147_456
    assert product(card, "pooler.dense").macs == ROWS * 1024
    assert card.estimates[0].network == pytest.approx(147_456 * 4.6e-9)
    assert product(card, "query").written == ROWS * LENGTH * HIDDEN
    assert product(card, "query").weights == HIDDEN * HIDDEN
    scores = product(card, "self", "query x key")
    assert (scores.macs, scores.inputs, scores.sharing) == (ROWS * 16 * 16 * 32, ROWS * 16 * 32, 16)
    real = {one.name: one.values for one in counts.operators}
    assert real["softmax"] == ROWS * 2 * LENGTH * LENGTH
    assert real["GELU"] == ROWS * LENGTH * FFN
    assert counts.looked_up >= ROWS * LENGTH * HIDDEN
    assert counts.parameters == sum(one.numel() for one in bert().parameters())


@pytest.mark.parametrize("T", [1, 4])
def test_papers_rule_is_that_of_the_terms(T: int) -> None:
    """Spikes counted as they run, and the paper's rule on sizes and firing rates, give the same millijoules."""
    model = bert("bispike", T)
    with FiringMeter(model) as meter, torch.no_grad():
        model(**BATCH)
    card = energy_card(model, BATCH)
    terms = encoder_terms(1, HIDDEN, FFN, LENGTH)
    assert card.estimates[0].network == pytest.approx(spiking_energy_mj(terms, meter.by_site(), T), rel=1e-9)
    assert card.estimates[0].plain == pytest.approx(energy_mj(terms), rel=1e-9)
    assert {one.site: one.events for one in card.counts.neurons} == meter.events()
    assert {one.twin_levels for one in card.counts.blocks} == {2 * T + 1}
    assert all(one.steps == T for one in card.counts.blocks)
    assert product(card, "pooler.dense").steps == 1


def test_batches_add_up() -> None:
    model = bert("bispike", 2)
    once, twice = energy_card(model, BATCH), energy_card(model, [BATCH, BATCH])
    assert twice.counts.rows == 2 * ROWS
    assert [one.macs for one in twice.counts.products] == [2 * one.macs for one in once.counts.products]
    for one, other in zip(once.estimates, twice.estimates, strict=True):
        assert (one.network, one.twin) == pytest.approx((other.network, other.twin))


def test_a_residual_neuron_by_hand() -> None:
    """Two ternary spikes a value, 1 and 1/3 high: 4/3 takes both, 2/3 is 1 - 1/3, 1/3 the second alone, 0 none."""
    model = spikify(BertModel(BertConfig(**SIZES)), "residual", T=1, steps=2)
    neuron: Any = next(module for module in model.modules() if isinstance(module, Neuron))
    neuron.alpha.fill_(1.0)
    neuron.alpha_ready.fill_(True)
    net = nn.Sequential(neuron, Fold(), nn.Linear(6, 5, bias=False))
    values = torch.tensor([[[4 / 3, -2 / 3, 1 / 3, 0.0, -4 / 3, 1.0]]])
    card = energy_card(net, values, T=1)
    (one,) = card.counts.products
    assert (one.reads, one.events, one.active) == ("unfolded spikes", 2 + 2 + 1 + 0 + 2 + 1, 8 * 5)
    assert (one.macs, one.effective, one.distinct) == (30, 25, 25), "a twin computes the five values that are not zero"
    assert (one.virtual_steps, one.levels) == (2, 9)
    assert card.counts.neurons[0].events == 8
    assert card.counts.neurons[0].silent == 1


class Fold(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)


def test_one_decoding_step_by_hand() -> None:
    """The seventh token of a Llama: 32 (32 + 32 + 32 + 32) + 3 * 32 * 64 in linears, 7 * 32 for scores and sums."""
    torch.manual_seed(0)
    sizes = {**SIZES, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=torch.randint(50, (1, 6)), past_key_values=cache)
    card = energy_card(model, {"input_ids": torch.tensor([[7]]), "past_key_values": cache})
    assert sum(one.macs for one in card.counts.blocks) == 4 * 32 * 32 + 3 * 32 * 64 + 2 * 7 * 32
    assert [one.kind for one in card.counts.products if one.cached] == ["query x key", "attention x value"]
    moved = traffic(card.counts, FP32, "network", Hierarchy())
    assert moved["KV cache"] == 2 * 7 * 32 * 32, "keys and values of seven tokens, 32 values of 32 bits each"
    weights = sum(one.weights for one in card.counts.products)
    assert moved["weights"] == 32 * weights, "one token shares its weights with nobody"
    assert not any(one.cached for one in energy_card(model, {"input_ids": torch.tensor([[7, 8]])}).counts.products)


def test_a_real_valued_product_is_macs() -> None:
    model: Any = bert("bispike", 2)
    model.encoder.layer[0].intermediate.dense._forward_pre_hooks.clear()
    card = energy_card(model, BATCH)
    wrong = product(card, "intermediate.dense")
    assert wrong.reads == "real values"
    assert wrong.reason == "both sides hold real values"
    spiking = [one for one in card.counts.blocks if one.spike_driven]
    expected = sum(one.active for one in spiking) * 0.9 + wrong.macs * 4.6
    assert card.estimates[0].network == pytest.approx(expected * 1e-9 / ROWS)


def test_spikes_at_a_given_rate() -> None:
    torch.manual_seed(0)
    card = energy_card(bert(ClassSpec.of(GivenRate, rate=0.25), T=4), BATCH)
    assert card.counts.firing_rate == pytest.approx(0.25, abs=0.01)
    assert product(card, "query").effective == product(card, "query").active


@pytest.mark.parametrize("T", [1, 4])
def test_expected_counts_are_those_of_spikes_drawn_at_random(T: int) -> None:
    """From sizes and rates alone: what does not depend on the draw is the same, the rest close to it."""
    torch.manual_seed(0)
    model = bert(ClassSpec.of(GivenRate, rate=0.2), T)
    seen = energy_card(model, BATCH).counts
    terms = encoder_terms(1, HIDDEN, FFN, LENGTH)
    size = BackboneConfig(kind="bert", layers=1, hidden=HIDDEN, heads=2, intermediate=FFN)
    rates = {one.site: one.rate for one in seen.neurons}
    made = expected_counts(terms, rates, size, LENGTH, T, parameters=seen.parameters)
    assert len(made.products) == len(seen.blocks)
    for one, other in zip(made.products, seen.blocks, strict=True):
        for name in ("macs", "active", "inputs", "written", "events"):
            assert ROWS * getattr(one, name) == pytest.approx(getattr(other, name), abs=4), (one.module, name)
        for name in ("sharing", "inner", "columns", "weights", "steps", "levels", "kind", "signed"):
            if one.kind == "linear" and name == "sharing":
                continue  # of one text here, of four there
            assert getattr(one, name) == getattr(other, name), (one.module, name)
        for name in ("distinct", "fetched", "fetched_together", "twin_fetched_together"):
            assert ROWS * getattr(one, name) == pytest.approx(getattr(other, name), rel=0.1), (one.module, name)
    least, most = (
        expected_counts(terms, rates, size, LENGTH, T, together=together).products for together in ("always", "never")
    )
    for low, other, high in zip(least, seen.blocks, most, strict=True):
        for name in ("distinct", "fetched", "fetched_together", "twin_fetched_together"):
            assert 0.99 * ROWS * getattr(low, name) <= getattr(other, name) <= 1.01 * ROWS * getattr(high, name)
    assert [ROWS * one.updates for one in made.neurons] == [one.updates for one in seen.neurons]
    assert [one.stateful for one in made.neurons] == [one.stateful for one in seen.neurons]
    values = {name: sum(one.values for one in seen.operators if one.name == name) for name in ("softmax", "GELU")}
    for name, of_four in values.items():
        assert ROWS * sum(one.values for one in made.operators if one.name == name) == of_four


def test_a_result_keeps_the_counts() -> None:
    counts = energy_card(bert("bispike", 2), BATCH).counts
    record = EnergyCard.of(counts)
    again = EnergyCard.model_validate(json.loads(json.dumps(record.model_dump(mode="json"))))
    assert again.counts == counts
    assert len(json.dumps(record.model_dump(mode="json"))) < 8000
    energy = {"fp32": 1.0, "fp16": 0.5}
    measured = Measured({**energy}, energy, FiringRates(), SpikeDriven(), energy_card=record)
    assert EnergyCard.model_validate(plain(measured.record())["energy_card"]) == record, "as a run writes it"


def test_a_model_that_multiplies_nothing() -> None:
    with pytest.raises(SpikeLMError, match="no product of matrices"):
        energy_card(nn.ReLU(), torch.ones(2, 3))


# --- against others ---


class Net(nn.Module):
    """Layers that NeuroBench and SpikingJelly can count: real values, then spikes {0, 1}, with some zero weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 20), nn.Linear(20, 7, bias=False)
        self.convolution = nn.Conv1d(1, 3, 4)
        with torch.no_grad():
            self.second.weight[:3, ::2] = 0

    def forward(self, x: Tensor) -> Tensor:
        spikes = (self.first(x) > 0).float()
        return self.second(spikes).sum() + self.convolution(spikes[:, None]).sum()


def given() -> Tensor:
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(3))
    return x.masked_fill(x.abs() < 0.4, 0)


def test_counts_equal_neurobench() -> None:
    workload = pytest.importorskip("neurobench.metrics.workload", reason="NeuroBench is not installed")
    models = pytest.importorskip("neurobench.models")
    torch.manual_seed(0)
    net, x = Net(), given()
    model, theirs = models.TorchModel(net), workload.SynapticOperations()
    model.register_hooks()
    with torch.no_grad():
        net(x)
    expected = theirs(model, None, (x, None))
    model.cleanup_hooks()
    ours = energy_card(net, x).neurobench
    assert ours.dense == expected["Dense"] == 12 * 20 + 20 * 7 + 17 * 3 * 4
    assert ours.effective_macs == expected["Effective_MACs"]
    assert ours.effective_acs == expected["Effective_ACs"]
    assert 0 < ours.effective_acs < 20 * 7 + 17 * 3 * 4


def test_counts_equal_spikingjelly() -> None:
    """Additions of binary spikes and products of real values; signed and scaled spikes it takes for real values."""
    counter = pytest.importorskip("spikingjelly.activation_based.op_counter", reason="SpikingJelly is not installed")
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(12, 20), Fire(), nn.Linear(20, 7)), given()
    with torch.no_grad(), counter.DispatchCounterMode([macs := counter.MACCounter(), acs := counter.SynOpCounter()]):
        net(x)
    first, second = energy_card(net, x).counts.products
    assert (first.reads, second.reads) == ("real values", "spikes")
    assert first.macs == macs.get_total()
    assert second.active == acs.get_total()


class Fire(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x > 0).float()


@pytest.mark.parametrize("mode", ["s", "m"])
def test_a_spikingjelly_network(mode: str) -> None:
    """Step by step, or all steps at once: the same counts, and a twin that computes a quarter of the products."""
    neuron = pytest.importorskip("spikingjelly.activation_based.neuron", reason="SpikingJelly is not installed")
    torch.manual_seed(0)

    class Spiking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 20), neuron.LIFNode(step_mode=mode), nn.Linear(20, 7))

        def forward(self, x: Tensor) -> Tensor:
            self.body[1].reset()
            return self.body(x) if mode == "m" else torch.stack([self.body(step) for step in x])

    x = torch.rand(4, 5, 12, generator=torch.Generator().manual_seed(0)) * 3
    model = Spiking()
    spikes: list[Tensor] = []
    model.body[1].register_forward_hook(lambda module, args, output: spikes.append(output))
    card = energy_card(model, x, T=4, rows=5)
    fired = torch.stack(spikes).view(4, 5, 20) != 0
    first, second = card.counts.products
    assert (first.macs, second.macs) == (4 * 5 * 240, 4 * 5 * 140)
    assert (first.steps, second.steps) == (4, 4)
    assert second.reads == "spikes"
    assert second.active == 7 * card.counts.neurons[0].events > 0
    ever = int(fired.any(0).sum()) if mode == "m" else min(int(fired.sum()), 5 * 20)
    assert second.distinct == 7 * ever
    assert second.twin_levels == 5
    assert second.twin_macs == 5 * 140
    assert second.unit
    assert not second.signed
