"""Energy arithmetic of the paper, and MACs against torch's own count."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from spikelm.catalog.energy import (
    Term,
    ceiling_mj,
    encoder_terms,
    energy_mj,
    mean_rate,
    real_valued_terms,
    spiking_energy_mj,
)
from spikelm.errors import ConfigError

torch.set_num_threads(1)
BERT_BASE = encoder_terms(12, 768, 3072, 128)


def test_bert_base() -> None:
    assert sum(term.macs for term in BERT_BASE) == 11_173_625_856
    assert energy_mj(BERT_BASE) == pytest.approx(51.3987, abs=1e-4)
    assert energy_mj(BERT_BASE) == pytest.approx(51.41, abs=0.02)  # as printed
    assert energy_mj(BERT_BASE, "fp16") == pytest.approx(16.7604, abs=1e-4)
    assert energy_mj(encoder_terms(3, 768, 3072, 128)) == pytest.approx(12.8497, abs=1e-4)


def test_ceilings() -> None:
    assert ceiling_mj(BERT_BASE) == pytest.approx(10.05626, abs=1e-5)
    assert ceiling_mj(BERT_BASE, precision="fp16") == pytest.approx(4.46945, abs=1e-5)
    assert ceiling_mj(BERT_BASE, T=4) == pytest.approx(4 * ceiling_mj(BERT_BASE))
    assert ceiling_mj(encoder_terms(6, 768, 3072, 128)) == pytest.approx(5.02813, abs=1e-5)


@pytest.mark.parametrize(
    ("layers", "T", "rate", "printed"),
    [
        (12, 1, 0.3958, 3.98),
        (12, 4, 0.3416, 13.74),
        (6, 1, 0.4077, 2.05),
        (6, 4, 0.3510, 7.06),
        (12, 4, 0.1984, 7.98),
    ],
)
def test_spiking_energies_of_table_3(layers: int, T: int, rate: float, printed: float) -> None:
    terms = encoder_terms(layers, 768, 3072, 128)
    rates = {term.site: rate for term in terms if term.site}
    assert spiking_energy_mj(terms, rates, T) == pytest.approx(printed, abs=0.005)
    # table 5: every FP16 cell of an SNN is 4/9 of the FP32 one
    assert spiking_energy_mj(terms, rates, T, "fp16") == pytest.approx(printed * 4 / 9, abs=0.005)


def test_one_linear() -> None:
    linear = [Term("linear", "site", 30 * 40)]
    assert energy_mj(linear) == pytest.approx(30 * 40 * 4.6e-9)
    assert spiking_energy_mj(linear, {"site": 0.25}, T=4) == pytest.approx(30 * 40 * 0.9e-9 * 4 * 0.25)


def test_each_site_counts_with_its_own_rate() -> None:
    terms = encoder_terms(1, 8, 32, 4)
    rates = {f"encoder.layer.0.{site}": 0.0 for site in ("qkv_in", "key_out", "value_out", "attn_out_in", "ffn1_in")}
    rates["encoder.layer.0.ffn2_in"] = 0.5
    assert spiking_energy_mj(terms, rates, T=2) == pytest.approx(4 * 8 * 32 * 0.9e-9 * 2 * 0.5)
    total = sum(term.macs for term in terms)
    assert mean_rate(terms, rates) == pytest.approx(4 * 8 * 32 * 0.5 / total)
    assert ceiling_mj(terms, 2) * mean_rate(terms, rates) == pytest.approx(spiking_energy_mj(terms, rates, 2))


def test_real_valued_terms_cost_a_mac_each_once() -> None:
    head = real_valued_terms(768)
    assert [term.macs for term in head] == [768 * 768, 768 * 2]
    assert spiking_energy_mj(head, {}, T=4) == pytest.approx(energy_mj(head))
    assert energy_mj([*BERT_BASE, *head[:1]]) == pytest.approx(51.4014, abs=1e-4)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"encoder\.layer\.0\.qkv_in"):
        spiking_energy_mj(BERT_BASE, {}, T=1)
    with pytest.raises(ConfigError, match=r"-0\.5"):
        spiking_energy_mj([Term("a", "s", 1)], {"s": -0.5}, T=1)
    with pytest.raises(ConfigError, match="int8"):
        energy_mj(BERT_BASE, "int8")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="layers=0"):
        encoder_terms(0, 768, 3072, 128)


@pytest.mark.parametrize(("layers", "hidden", "intermediate", "length"), [(2, 32, 64, 7), (3, 24, 96, 11)])
def test_macs_agree_with_torch(layers: int, hidden: int, intermediate: int, length: int) -> None:
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=2,
        intermediate_size=intermediate,
        vocab_size=20,
        attn_implementation="eager",  # torch counts a fused attention kernel as nothing on a CPU
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=torch.ones(1, length, dtype=torch.long))
    terms = encoder_terms(layers, hidden, intermediate, length)
    assert 2 * sum(term.macs for term in terms) == counter.get_total_flops()
