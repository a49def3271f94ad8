"""Energy of an encoder-decoder: the golden numbers, torch's own count, and rates from the meter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import BartConfig, BartForConditionalGeneration

from spikelm.catalog.energy import (
    Term,
    ceiling_mj,
    energy_mj,
    generation_terms,
    lm_head_terms,
    seq2seq_terms,
    spiking_energy_mj,
)
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import measure_firing, measure_terms, prompt
from spikelm.spiking import neurons, spikify

torch.set_num_threads(1)
BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
BASE = (6, 6, 768, 3072)
LAYERS, DECODER, HIDDEN, FFN, VOCAB = 2, 3, 32, 48, 70
SMALL = (LAYERS, DECODER, HIDDEN, FFN)


def macs(terms: list[Term]) -> int:
    return sum(term.macs for term in terms)


def bart(T: int = 0) -> Any:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=VOCAB,
        d_model=HIDDEN,
        encoder_layers=LAYERS,
        decoder_layers=DECODER,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=FFN,
        decoder_ffn_dim=FFN,
        max_position_embeddings=40,
        attn_implementation="eager",  # torch counts a fused attention kernel as nothing on a CPU
    )
    model: Any = BartForConditionalGeneration(config)
    if T:
        spikify(model, BISPIKE, T).train()(**batch())
    return model.eval()


def batch() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCAB, (2, 9), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids[:, :6]}


@pytest.mark.parametrize(
    ("source", "target", "wanted", "with_head", "mj", "mj_with_head"),
    [
        (512, 64, 31_293_702_144, 33_764_327_424, 143.951, 155.316),
        (1024, 128, 68_098_719_744, 73_039_970_304, 313.254, 335.984),
    ],
)
def test_bart_base(source: int, target: int, wanted: int, with_head: int, mj: float, mj_with_head: float) -> None:
    terms = seq2seq_terms(*BASE, source, target)
    whole = terms + lm_head_terms(768, 50265, target)
    assert (macs(terms), macs(whole)) == (wanted, with_head)
    assert energy_mj(terms) == pytest.approx(mj, abs=5e-4)
    assert energy_mj(whole) == pytest.approx(mj_with_head, abs=5e-4)
    # the head stays real-valued: a spiking model pays it once, whatever T
    silent = {term.site: 0.0 for term in terms if term.site}
    assert spiking_energy_mj(whole, silent, 4) == pytest.approx(mj_with_head - mj, abs=1e-3)
    assert ceiling_mj(terms, 4) == pytest.approx(4 * 0.9 / 4.6 * mj, abs=1e-3)


def test_beam_search_of_the_paper_s_settings() -> None:
    """1024 tokens, 6 beams; encoder and cross keys and values are paid once."""
    assert energy_mj(seq2seq_terms(*BASE, 1024, 61, beams=6)) == pytest.approx(378.08, abs=5e-3)
    assert energy_mj(seq2seq_terms(*BASE, 1024, 62, beams=6)) == pytest.approx(379.74, abs=5e-3)
    assert energy_mj(seq2seq_terms(*BASE, 1024, 61, beams=6, causal=True)) == pytest.approx(377.61, abs=5e-3)
    assert macs(lm_head_terms(768, 50265, 61, beams=6)) == 6 * 61 * 768 * 50265


def test_generated_lengths_are_averaged() -> None:
    one, two = (seq2seq_terms(*BASE, *lengths, beams=4, causal=True) for lengths in ((100, 20), (300, 41)))
    mean = generation_terms(*BASE, sources=[100, 300], targets=[20, 41], beams=4)
    assert 2 * macs(mean) == pytest.approx(macs(one) + macs(two), abs=2 * len(mean))
    assert [term.site for term in mean] == [term.site for term in one]
    with pytest.raises(ConfigError, match="2 source lengths"):
        generation_terms(*BASE, sources=[1, 2], targets=[3])
    with pytest.raises(ConfigError, match="beams=0"):
        seq2seq_terms(*BASE, 10, 10, beams=0)


def test_macs_are_those_that_torch_counts() -> None:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        bart()(**batch())
    terms = seq2seq_terms(*SMALL, 9, 6) + lm_head_terms(HIDDEN, VOCAB, 6)
    assert 2 * 2 * macs(terms) == counter.get_total_flops()


@pytest.mark.parametrize("beams", [1, 3])
def test_macs_of_generation_are_those_that_torch_counts(beams: int) -> None:
    """Cross keys and values run once per row before the beams share them: there torch sees `beams` rows."""
    model = bart()
    how = {"num_beams": beams, "min_new_tokens": 7, "max_new_tokens": 7, "do_sample": False}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.generate(input_ids=batch()["input_ids"][:1], **how)
    terms = seq2seq_terms(*SMALL, 9, 7, beams=beams, causal=True) + lm_head_terms(HIDDEN, VOCAB, 7, beams)
    again = (beams - 1) * DECODER * 2 * 9 * HIDDEN**2
    assert 2 * (macs(terms) + again) == counter.get_total_flops()


@pytest.mark.parametrize("generate", [None, {"num_beams": 2, "max_new_tokens": 5, "min_new_tokens": 5}])
def test_the_meter_fills_every_site_the_energy_asks_for(generate: dict | None) -> None:
    model = bart(4)
    rates = measure_firing(model, [batch()], generate)
    terms = seq2seq_terms(*SMALL, 9, 6)
    assert set(rates) == {term.site for term in terms} == {neuron.site for neuron in neurons(model)}
    assert all(0 < rate < 1 for rate in rates.values())
    report = audit(model, prompt(batch()) if generate else batch(), 4, generate=generate)
    assert report.verdict == "fully"
    assert report.real_valued == ["lm_head"]


def test_what_is_measured_of_given_matmuls() -> None:
    model, terms = bart(4), seq2seq_terms(*SMALL, 9, 6)
    rates = measure_firing(model, [batch()])
    measured = measure_terms(model, [batch()], terms, 4, fires=True)
    assert measured.firing_rate.per_site == rates
    assert measured.energy_mj["fp32"] == pytest.approx(spiking_energy_mj(terms, rates, 4))
    assert measured.energy_ann_mj["fp32"] == pytest.approx(energy_mj(terms))
    assert measured.spike_driven.verdict == "fully"
    assert measured.spike_driven.real_valued == ["lm_head"]


def test_rates_with_and_without_a_cache_agree() -> None:
    """Each token counts once at each site: decoding step by step sees the spikes of one teacher-forced pass."""
    model = bart(4).double()
    data = {name: batch()[name] for name in ("input_ids", "attention_mask")}
    how = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    tokens = model.generate(**data, **how)
    stepwise = measure_firing(model, [data], how)
    assert measure_firing(model, [{**data, "decoder_input_ids": tokens[:, :-1]}]) == pytest.approx(stepwise)
