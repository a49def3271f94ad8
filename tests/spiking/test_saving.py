"""save_pretrained and from_pretrained of spiking models, and the published sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel

from spikelm import spiking
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import CheckpointError
from spikelm.spiking import Spiking, load_pretrained, neurons, spikify

CLASSES = [BertModel, BertForSequenceClassification, BertForPreTraining]


def same_state(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("cls", CLASSES)
def test_save_and_load_is_exact(small, bispike, batch, tmp_path: Path, cls, T: int) -> None:
    model = spikify(cls(small()), bispike, T).train()
    model(**batch)
    model.eval()
    model.save_pretrained(tmp_path)
    named = getattr(spiking, f"Spiking{cls.__name__}")
    for again in (load_pretrained(tmp_path), named.from_pretrained(tmp_path)):
        assert type(again) is type(model)
        assert isinstance(again, cls)
        assert same_state(model, again)
        assert [n.site for n in neurons(again)] == [n.site for n in neurons(model)]
        assert all(n.ready for n in neurons(again))
        assert torch.equal(again.eval()(**batch)[0], model(**batch)[0])
    if cls is BertForPreTraining:
        decoder = again.cls.predictions.decoder.weight
        assert decoder.data_ptr() == again.bert.embeddings.word_embeddings.weight.data_ptr()


@pytest.mark.parametrize(
    "neuron",
    [
        ClassSpec("spikelm.neurons.psn.PSN"),
        ClassSpec("spikelm.neurons.lif.LIF", {"fire": "round"}),
        ClassSpec("spikelm.neurons.lif_atan.LIFAtan"),
        ClassSpec("spikelm.neurons.bispike.BiSpike", {"alpha": "learnable", "reset": "paper", "k": 3.0}),
    ],
)
def test_every_neuron_is_restored(small, batch, tmp_path: Path, neuron) -> None:
    model = spikify(BertModel(small()), neuron, 2).train()
    model(**batch)
    model.eval().save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    assert same_state(model, again)
    assert repr(again) == repr(model)
    assert torch.equal(again(**batch).last_hidden_state, model(**batch).last_hidden_state)


def test_amplitudes_survive_fine_tuning_with_another_head(small, bispike, batch, tmp_path: Path) -> None:
    """Pretraining fixes the amplitudes; a classifier loaded from it keeps them through its own training."""
    model = spikify(BertForPreTraining(small()), bispike, 4).train()
    model(**batch)
    model.save_pretrained(tmp_path)
    wanted = [n.alpha.clone() for n in neurons(model)]
    tuned = spiking.SpikingBertForSequenceClassification.from_pretrained(tmp_path, num_labels=3).train()
    optimizer = torch.optim.SGD(tuned.parameters(), lr=0.1)
    for _ in range(2):
        tuned(**batch, labels=torch.tensor([0, 1, 2])).loss.backward()
        optimizer.step()
    assert all(torch.equal(n.alpha, alpha) for n, alpha in zip(neurons(tuned), wanted, strict=True))


def test_a_model_saved_before_its_first_batch_still_wants_one(small, bispike, batch, tmp_path: Path) -> None:
    spikify(BertModel(small()), bispike, 2).save_pretrained(tmp_path)
    again = load_pretrained(tmp_path)
    assert not any(n.ready for n in neurons(again))
    again.train()(**batch)
    assert all(n.ready for n in neurons(again))


def test_an_ann_folder_loads_then_spikes(small, bispike, batch, tmp_path: Path) -> None:
    plain = BertModel(small())
    plain.save_pretrained(tmp_path)
    again = load_pretrained(tmp_path)
    assert type(again) is BertModel
    assert not isinstance(again, Spiking)
    model = spikify(again, bispike, 4).train()
    state = model.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in plain.state_dict().items())
    assert torch.isfinite(model(**batch).last_hidden_state).all()


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not hold a saved model"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    "cls, layers, wanted",
    [
        (BertModel, 12, 109_482_240),
        (BertForPreTraining, 12, 110_106_428),
        (BertModel, 3, 45_691_392),
        (BertModel, 6, 66_955_008),
        (BertForSequenceClassification, 12, 109_483_778),
    ],
)
def test_published_parameter_counts(bispike, cls, layers: int, wanted: int) -> None:
    with torch.device("meta"):
        model = spikify(cls(BertConfig(num_hidden_layers=layers)), bispike, 4)
    assert sum(p.numel() for p in model.parameters()) == wanted


@pytest.mark.parametrize("T, wanted", [(1, 96), (4, 384)])
def test_published_amplitude_counts(bispike, T: int, wanted: int) -> None:
    """One per t for each linear, K and V: the shared input neuron of q, k and v stands for three."""
    with torch.device("meta"):
        model = spikify(BertModel(BertConfig()), bispike, T)
    assert sum(n.alpha.numel() * (3 if n.site.endswith("qkv_in") else 1) for n in neurons(model)) == wanted
