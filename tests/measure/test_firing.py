"""Firing rates: the meter's bookkeeping, and neurons against closed forms and the released reset."""

from __future__ import annotations

import math

import pytest
import torch
from isometry import firing_rate
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from spikelm.catalog.energy import encoder_terms, mean_rate
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import SpikeLMError
from spikelm.measure.firing import FiringMeter
from spikelm.neurons import Neuron
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.lif import LIF
from spikelm.neurons.lif_atan import LIFAtan
from spikelm.spiking import spikify

torch.set_num_threads(1)
SAMPLES = 200_000


class Identity(Neuron):
    """Fires where its input is not zero: the meter then counts what the test wrote down."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def draw(law: str, T: int = 1) -> Tensor:
    """The same sample at every time step, (T, 1, 1, SAMPLES): a constant drive."""
    generator = torch.Generator().manual_seed(7)
    uniform = torch.rand(SAMPLES, generator=generator, dtype=torch.float64) - 0.5
    normal = torch.randn(SAMPLES, generator=generator)
    laplace = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    return (normal if law == "gaussian" else laplace.float()).expand(T, 1, 1, SAMPLES)


def measured(neuron: Neuron, x: Tensor) -> list[float]:
    neuron.site = "here"
    with FiringMeter(neuron) as meter, torch.no_grad():
        neuron(x)
    return meter.rates()["here"]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("fire", ["round", "paper"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_bispike_rate_is_the_closed_form(k: int, fire: str, law: str) -> None:
    rate = measured(BiSpike(T=1, k=k, fire=fire), draw(law))  # type: ignore[arg-type]
    expected = firing_rate(k, law, fire)  # type: ignore[arg-type]
    assert rate == [pytest.approx(expected, abs=4 * math.sqrt(expected / SAMPLES) + 1e-3)]


def test_lif_rate_is_the_tail_of_a_gaussian() -> None:
    assert measured(LIF(T=1), draw("gaussian")) == [pytest.approx(0.5 * math.erfc(1 / math.sqrt(2)), abs=0.004)]
    assert measured(LIF(T=1, fire="round"), draw("gaussian")) == [
        pytest.approx(0.5 * math.erfc(0.5 / math.sqrt(2)), abs=0.004)
    ]


def test_released_reset_under_constant_drive() -> None:
    neuron = BiSpike(T=4, k=2, reset="code")
    assert measured(neuron, draw("gaussian", 4)) == pytest.approx([0.425, 0.345, 0.290, 0.232], rel=0.012)
    assert neuron.alpha.tolist() == pytest.approx([1.595, 2.232, 3.184, 5.283], rel=0.01)


def test_normalized_reset_under_constant_drive() -> None:
    rates = measured(BiSpike(T=4, k=2, reset="normalized"), draw("gaussian", 4))
    assert rates == pytest.approx([0.425, 0.465, 0.442, 0.459], rel=0.01)


def test_spikingjelly_lif_under_constant_drive() -> None:
    assert measured(LIFAtan(T=4), draw("gaussian", 4)) == pytest.approx([0.023, 0.091, 0.058, 0.108], abs=0.0015)


def test_batches_weigh_by_their_number_of_values() -> None:
    neuron = Identity(T=2)
    neuron.site = "here"
    with FiringMeter(neuron) as meter:
        neuron(torch.stack([torch.ones(1, 3, 2), torch.zeros(1, 3, 2)]))
        neuron(torch.stack([torch.zeros(1, 1, 2), torch.tensor([[[0.0, -3.0]]])]))
    assert meter.rates() == {"here": [6 / 8, 1 / 8]}
    assert meter.by_site() == {"here": pytest.approx(7 / 16)}


def test_pads_count_like_any_token() -> None:
    neuron = Identity(T=1)
    with FiringMeter(neuron) as meter:
        neuron(torch.tensor([[[1.0, 0.0], [0.0, 9.0]], [[1.0, 1.0], [0.0, 0.0]]])[None])  # the second token is a pad
    assert list(meter.by_site().values()) == [4 / 8]


def test_hooks_go_away_even_after_an_error() -> None:
    neuron = Identity(T=1)
    with pytest.raises(ZeroDivisionError), FiringMeter(neuron):
        raise ZeroDivisionError
    assert not neuron._forward_hooks


def test_mistakes_are_named() -> None:
    with FiringMeter(nn.Linear(2, 2)) as meter, pytest.raises(SpikeLMError, match="no spikes"):
        meter.rates()
    twins = nn.ModuleList([Identity(T=1), Identity(T=1)])
    for neuron in twins:
        neuron.site = "same"
    with pytest.raises(SpikeLMError, match="same"):
        FiringMeter(twins)


def test_spiking_bert_fills_every_site_the_energy_asks_for() -> None:
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=50)
    model = spikify(BertModel(config), ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": 2}), 4)
    batch = {"input_ids": torch.randint(0, 50, (8, 16))}
    model.train()(**batch)
    terms = encoder_terms(2, 32, 64, 16)
    with FiringMeter(model.eval()) as meter, torch.no_grad():
        model(**batch)
    assert set(meter.by_site()) == {term.site for term in terms}
    assert all(len(steps) == 4 for steps in meter.rates().values())
    # LayerNorm outputs are near N(0, 1): the released reset's simulation holds inside the model too
    assert meter.rates()["encoder.layer.0.qkv_in"] == pytest.approx([0.425, 0.345, 0.290, 0.232], abs=0.03)
    rates = meter.by_site()
    by_hand = sum(t.macs * rates[t.site] for t in terms if t.site) / sum(t.macs for t in terms)
    assert mean_rate(terms, rates) == pytest.approx(by_hand)
