"""A quantised plain model computed bit by bit: its events are the set bits of its levels, counted here by hand."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertModel

from spikelm.catalog.energy import encoder_terms
from spikelm.measure.trained_model import measure_terms
from spikelm.spiking import calibrate, neurons, spikify

HIDDEN, WIDE, LENGTH = 32, 64, 12
SIZES = {"hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": WIDE}


@pytest.mark.parametrize(("levels", "virtual"), [(3, 1), (4, 2), (8, 3), (16, 4)])
def test_one_addition_for_each_set_bit(levels: int, virtual: int) -> None:
    torch.manual_seed(0)
    batch = {"input_ids": torch.randint(100, (4, LENGTH))}
    model = spikify(BertModel(BertConfig(vocab_size=100, **SIZES)), "levels", T=1, levels=levels)
    calibrate(model, batch)
    bits: dict[str, float] = {}
    for neuron in neurons(model):

        def count(neuron, args, output):  # type: ignore[no-untyped-def]
            numbers = (output / neuron.alpha).round().abs().int().flatten().tolist()
            assert max(numbers) <= max(1, levels // 2)
            bits[neuron.site.rpartition(".")[2]] = sum(bin(n).count("1") for n in numbers) / len(numbers)

        neuron.register_forward_hook(count)
    terms = encoder_terms(1, HIDDEN, WIDE, LENGTH)
    measured = measure_terms(model, [batch], terms, T=1, fires=True)
    # MACs that each site feeds: three projections, two products of attention, one projection, two of the FFN
    square, attention, wide = LENGTH * HIDDEN**2, LENGTH**2 * HIDDEN, LENGTH * HIDDEN * WIDE
    macs = {"qkv_in": 3 * square, "key_out": attention, "value_out": attention, "attn_out_in": square}
    macs |= {"ffn1_in": wide, "ffn2_in": wide}
    additions = sum(macs[site] * bits[site] for site in macs)
    assert measured.firing_rate.mean == pytest.approx(additions / sum(macs.values()))
    assert measured.energy_mj["fp32"] == pytest.approx(additions * 0.9e-9)
    assert measured.energy_ann_mj["fp32"] == pytest.approx(sum(macs.values()) * 4.6e-9)
    assert measured.firing_rate.virtual_steps == virtual
    assert measured.spike_driven.verdict == "fully"


def test_a_neuron_with_one_spike_at_a_time_takes_one_virtual_step() -> None:
    model = spikify(BertModel(BertConfig(vocab_size=100, **SIZES)), "lif", T=2)
    batch = {"input_ids": torch.randint(100, (4, LENGTH))}
    measured = measure_terms(model, [batch], encoder_terms(1, HIDDEN, WIDE, LENGTH), T=2, fires=True)
    assert measured.firing_rate.virtual_steps == 1
    assert measured.record()["firing_rate"]["virtual_steps"] == 1
