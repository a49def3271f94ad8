"""Neurons by name and amplitudes from batches: a model from Python that can be called at once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from transformers import BatchEncoding, BertForSequenceClassification, BertModel

import spikelm
from spikelm.config.compose import load_config
from spikelm.config.plugins import option_names
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.spiking import calibrate, conversion, load_pretrained, neurons, spikify


@pytest.mark.parametrize("name", [name for name in option_names("neuron") if name != "ann"])
def test_a_name_means_what_it_means_on_the_command_line(name: str, small: Any) -> None:
    model = spikify(BertModel(small()), name, T=1)
    expected = load_config([f"neuron={name}"]).neuron
    recorded = conversion.conversion_of(model.config)
    assert recorded is not None
    assert (recorded.neuron.target, recorded.neuron.arguments) == (expected.target, expected.arguments)
    batch = {"input_ids": torch.randint(90, (4, 6))}
    assert calibrate(model, batch).eval()(**batch).last_hidden_state.isfinite().all()


@pytest.mark.parametrize(
    "neuron, arguments, message",
    [
        ("bispike", {"k": -1}, r"bispike\.k=-1 is not valid; valid: a number above 0"),
        ("bispike", {"kk": 2}, r"unknown key bispike\.kk; did you mean bispike\.k\?"),
        ("bispke", {}, "'bispke' is not a known neuron; did you mean bispike"),
        ("lif", {"k": 3}, r"unknown key lif\.k; .*lif\.theta"),
        ("lif", {"fire": "often"}, r"lif\.fire=often is not valid; valid: threshold, round"),
        (ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": -1}), {}, r"BiSpike\.k=-1 is not valid"),
        (ClassSpec("spikelm.neurons.bispike.BiSpike"), {"k": -1}, r"BiSpike\.k=-1 is not valid"),
        (None, {"k": 2}, r"unknown key neuron\.k"),
    ],
)
def test_arguments_are_checked_and_the_model_is_left_alone(
    neuron: Any, arguments: dict[str, Any], message: str, small: Any
) -> None:
    model = BertModel(small())
    with pytest.raises(ConfigError, match=message):
        spikify(model, neuron, T=2, **arguments)
    assert type(model) is BertModel
    assert not list(neurons(model))


def test_amplitudes_are_k_times_the_mean_magnitude_of_what_a_neuron_reads(small: Any) -> None:
    model = spikify(BertForSequenceClassification(small(hidden_dropout_prob=0.5)), "bispike", k=3, T=1)
    weights = {name: value.clone() for name, value in model.named_parameters()}
    batches = [{"input_ids": torch.randint(90, (4, 6))} for _ in range(2)]
    first = model.bert.encoder.layer[0].attention.self.spike_in  # reads the embeddings
    model.train()
    state = torch.get_rng_state()
    assert calibrate(model, batches) is model
    assert torch.equal(torch.get_rng_state(), state), "no dropout"
    assert model.training
    model.eval()
    with torch.no_grad():
        read = [model.bert.embeddings(**batch).abs().mean() for batch in batches]
    assert float(first.alpha) == pytest.approx(3 * float(sum(read)) / 2, rel=1e-5)
    assert all(torch.equal(value, weights[name]) for name, value in model.named_parameters())


def test_one_batch_of_any_form_and_calibrating_again(small: Any) -> None:
    model = spikify(BertModel(small()), "bispike", T=2).eval()
    ids = torch.randint(90, (4, 6))
    found = []
    for batch in (ids, {"input_ids": ids}, BatchEncoding({"input_ids": ids}), [ids, ids], iter([ids])):
        calibrate(model, batch)
        found.append(torch.cat([neuron.alpha for neuron in neurons(model)]))
    assert all(torch.allclose(alpha, found[0]) for alpha in found)
    other = torch.cat([neuron.alpha for neuron in neurons(calibrate(model, ids[:, :2]))])
    assert not torch.allclose(other, found[0])
    with pytest.raises(ConfigError, match="no batch"):
        calibrate(model, [])
    with pytest.raises(ConfigError, match="BertModel has no neurons"):
        calibrate(BertModel(small()), ids)


def test_an_uncalibrated_model_says_what_to_do_and_a_saved_one_is_calibrated(small: Any, tmp_path: Any) -> None:
    model = spikify(BertModel(small()), "bispike", T=2).eval()
    ids = torch.randint(90, (4, 6))
    with pytest.raises(SpikeLMError, match=r"not set yet\n  fix: calibrate\(model, batches\)"):
        model(ids)
    calibrate(model, ids).save_pretrained(tmp_path)
    assert torch.equal(load_pretrained(tmp_path).eval()(ids)[0], model(ids)[0])


def test_the_names_are_at_the_top_too_without_torch() -> None:
    assert (spikelm.spikify, spikelm.calibrate, spikelm.load_pretrained) == (spikify, calibrate, load_pretrained)
    with pytest.raises(AttributeError, match="no attribute 'spikfy'"):
        spikelm.spikfy  # noqa: B018
    light = "import spikelm, sys; assert not {'torch', 'hydra', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", light], check=True, timeout=60)
