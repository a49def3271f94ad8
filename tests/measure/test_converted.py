"""What a conversion loses, against plain loops over hidden states and over what single neurons read and give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertForSequenceClassification

from spikelm.measure.converted import conversion_errors, run_time_additions
from spikelm.spiking import calibrate, neurons, spikify

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PAIRS = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def copied(model: Any) -> Any:
    other = type(model)(model.config)
    other.load_state_dict(model.state_dict())
    return other


def bert() -> Any:
    return BertForSequenceClassification(BertConfig(vocab_size=90, initializer_range=0.2, **SIZES, **NO_DROPOUT))


def rows() -> dict[str, Tensor]:
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[1, 6:] = 0
    mask[3, 3:] = 0
    return {"input_ids": torch.randint(90, (4, 9)), "attention_mask": mask}


def by_hand(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    x, y = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    return float(x @ y / np.sqrt((x @ x) * (y @ y))), float(np.linalg.norm(y - x) / np.linalg.norm(x))


def real(states: Tensor, mask: Tensor) -> np.ndarray:
    """The states of real tokens, one after another."""
    kept = [states[row, place].numpy() for row, place in np.ndindex(*mask.shape) if mask[row, place]]
    return np.stack(kept)


@pytest.mark.parametrize("T", [1, 3])
@torch.no_grad()
def test_blocks_are_compared_by_their_hidden_states(T: int) -> None:
    plain, batches = bert(), [rows(), rows()]
    model = calibrate(spikify(copied(plain), "bispike", T=T), batches)
    model.train()
    blocks, _ = conversion_errors(model, plain, batches)
    assert model.training, "left as it was"
    model.eval(), plain.eval()
    states = [[each(**batch, output_hidden_states=True).hidden_states for batch in batches] for each in (plain, model)]
    assert [block.name for block in blocks] == ["encoder.layer.0", "encoder.layer.1"]
    for index, block in enumerate(blocks):
        x, y = (
            np.concatenate([real(s[index + 1], b["attention_mask"]) for s, b in zip(each, batches, strict=True)])
            for each in states
        )
        assert (block.cosine, block.relative_error) == pytest.approx(by_hand(x, y), rel=1e-5)


@torch.no_grad()
def test_neurons_are_compared_with_what_they_read_and_pads_do_not_count() -> None:
    plain, batch = bert(), rows()
    model = calibrate(spikify(copied(plain), "residual", T=1, k=2.0), batch).eval()
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    handles = [n.register_forward_hook(lambda m, a, y: seen.update({m.site: (a[0], y)})) for n in neurons(model)]
    model(**batch)
    for handle in handles:
        handle.remove()
    _, sites = conversion_errors(model, plain, [batch])
    assert {site.site for site in sites} == set(seen)
    heights = {neuron.site: float(neuron.alpha) * (1 + 1 / 3) for neuron in neurons(model)}  # type: ignore[arg-type]
    for site in sites:
        x, y = (real(value[0], batch["attention_mask"]) for value in seen[site.site])
        assert (site.cosine, site.relative_error) == pytest.approx(by_hand(x, y), rel=1e-5)
        assert site.saturated == pytest.approx(float((np.abs(x) > heights[site.site]).mean()), abs=1e-4)
        assert site.saturated is not None
        assert 0 < site.saturated < 0.2


@torch.no_grad()
def test_silent_neurons_and_neurons_that_reach_every_value() -> None:
    plain, batch = bert(), rows()
    _, sites = conversion_errors(spikify(copied(plain), "lif", T=2, theta=1e6), plain, [batch])
    assert all(site.cosine is None for site in sites)
    lost = {site.site.rpartition(".")[2] for site in sites if site.relative_error == 1}
    assert lost == {"qkv_in", "ffn1_in"}, "all that they read is lost"
    assert {site.relative_error for site in sites} == {1.0, None}, "the others read zeros"
    token = spikify(copied(plain), "residual", T=1, scale="token", steps=3)
    _, sites = conversion_errors(token, plain, [batch])
    assert all(site.saturated == 0 for site in sites), "the largest value of a token is within its reach"


@torch.no_grad()
def test_quantised_weights_alone_have_blocks_and_no_sites() -> None:
    from spikelm.config.compose import load_config

    plain, batch = bert(), rows()
    model = spikify(copied(plain), None, T=1, weights=load_config(["neuron=ann", "weights=ternary"]).weights)
    blocks, sites = conversion_errors(model, plain, [batch])
    assert len(blocks) == 2
    assert not sites


@torch.no_grad()
def test_pairs_have_pads_of_their_own_on_both_sides() -> None:
    settings = BartConfig(vocab_size=90, d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, dropout=0.0, **PAIRS)
    plain = BartForConditionalGeneration(settings).eval()
    batch = rows()
    targets = torch.randint(3, 90, (4, 9))  # as long as the source: shapes tell nothing
    targets[2, 4:] = settings.pad_token_id
    batch["decoder_input_ids"] = targets
    model = calibrate(spikify(copied(plain), "residual", T=1), batch).eval()
    blocks, sites = conversion_errors(model, plain, [batch])
    assert [block.name for block in blocks] == ["encoder.layers.0", "decoder.layers.0", "decoder.layers.1"]
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    for neuron in neurons(model):
        neuron.register_forward_hook(lambda m, a, y: seen.update({m.site: (a[0], y)}))
    ours, theirs = (each(**batch, output_hidden_states=True) for each in (plain, model))
    states = [(ours.encoder_hidden_states[1], theirs.encoder_hidden_states[1], batch["attention_mask"])]
    target = targets != settings.pad_token_id
    states += [(ours.decoder_hidden_states[i], theirs.decoder_hidden_states[i], target) for i in (1, 2)]
    for block, (x, y, mask) in zip(blocks, states, strict=True):
        assert (block.cosine, block.relative_error) == pytest.approx(by_hand(real(x, mask), real(y, mask)), rel=1e-4)
    by_site = {site.site: site for site in sites}
    for name, mask in (
        ("cross_kv_in", batch["attention_mask"]),
        ("cross_q_in", target),
        ("cross_key_out", batch["attention_mask"]),
    ):
        x, y = (real(value[0], mask) for value in seen[f"decoder.layers.1.{name}"])
        site = by_site[f"decoder.layers.1.{name}"]
        assert (site.cosine, site.relative_error) == pytest.approx(by_hand(x, y), rel=1e-5)


def test_the_rotations_at_run_time_are_counted() -> None:
    model: nn.Module = spikify(bert(), "bispike", T=1, rotation="hadamard")
    assert run_time_additions(model) == 2 * (32 * 5 + 32 * 5 + 64 * 6)  # qkv_in, ffn1_in and ffn2_in of two layers
    assert run_time_additions(bert()) == 0
