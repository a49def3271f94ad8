"""The network over time against the quantised network it stands for, and one neuron against the released code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import BartForConditionalGeneration, BertForSequenceClassification, BertModel, GPT2LMHeadModel

from spikelm.errors import ConfigError
from spikelm.neurons.unfolding.stbif import STBIF
from spikelm.spiking import calibrate, neurons, spikify
from spikelm.spiking.settle import SpikeTrain, over_steps, settle

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "field" / "golden" / "stbif.safetensors"


def neuron_with(s: float, signed: bool, levels: int = 8) -> STBIF:
    neuron = STBIF(1, levels=levels, signed=signed)
    with torch.no_grad():
        neuron.alpha.fill_(s)
        neuron.alpha_ready.fill_(True)
    neuron._ready = None
    return neuron


@pytest.mark.skipif(not GOLDEN.is_file(), reason="no folder shared/field/golden beside the project")
@pytest.mark.parametrize("kind", ["sym", "unsigned"])
@pytest.mark.parametrize("pieces", ["analog", "seq"])
def test_the_spikes_of_a_running_sum_are_the_released_ones(pieces: str, kind: str) -> None:
    g = load_file(GOLDEN)
    expected = g[f"stbif_{kind}.spikes_{pieces}"]
    inputs = torch.zeros_like(expected)
    if pieces == "analog":
        inputs[0] = g["x"]
    else:
        inputs[:4] = g[f"stbif_{kind}.in_seq"]
    train = SpikeTrain(neuron_with(float(g[f"quan_{kind}.s"]), kind == "sym"))
    sums = torch.stack([train(total[None])[0] for total in inputs.double().cumsum(0)])
    spikes = torch.diff(sums, dim=0, prepend=torch.zeros_like(sums[:1]))
    torch.testing.assert_close(spikes.float(), expected, rtol=1e-6, atol=1e-6)
    assert int(train.spikes) == int((expected != 0).sum())


def converted(model: Any, batch: dict[str, Tensor], T: int = 1, **arguments: Any) -> Any:
    model = spikify(model, "stbif", T=T, **arguments)
    return calibrate(model, batch).eval()


@pytest.mark.parametrize("levels", [4, 16])
@pytest.mark.parametrize("T", [1, 2])
def test_a_bert_settles_to_its_quantised_network(small: Any, batch: dict[str, Tensor], levels: int, T: int) -> None:
    model = converted(BertForSequenceClassification(small(initializer_range=0.1)), batch, T, levels=levels)
    told = settle(model, batch, most=2000)
    assert told.settled
    assert told.differing == 0
    assert told.difference < 1e-9
    assert told.spikes_per_value >= told.levels_per_value > 0


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_a_decoder_settles_too(kind: str, small_seq2seq: Any, small_gpt2: Any, batch: dict[str, Tensor]) -> None:
    rows = dict(batch)
    model: Any
    if kind == "bart":
        model = BartForConditionalGeneration(small_seq2seq(init_std=0.1))
        rows["decoder_input_ids"] = batch["input_ids"][:, :6]
    else:
        model = GPT2LMHeadModel(small_gpt2(initializer_range=0.1))
    told = settle(converted(model, rows), rows, most=2000)
    assert told.settled
    assert told.differing == 0
    assert told.difference < 1e-9


@torch.no_grad()
def test_the_counts_are_those_of_single_steps(small: Any, batch: dict[str, Tensor]) -> None:
    """Spikes counted here from the differences of what neurons give, step by step."""
    model = converted(BertModel(small(num_hidden_layers=1)), batch).double()
    outputs: dict[str, list[Tensor]] = {}
    handles = [
        neuron.register_forward_hook(lambda m, a, y: outputs.setdefault(m.site, []).append(y))
        for neuron in neurons(model)
    ]
    with over_steps(model):
        for _ in range(60):
            last = model(**batch)[0]
    for handle in handles:
        handle.remove()
    trains = [torch.stack(steps).diff(dim=0, prepend=torch.zeros_like(steps[0])[None]) for steps in outputs.values()]
    for train in trains:  # at most one spike a step, of one height
        high = train.abs().max()
        assert bool(((train.abs() < 1e-12) | ((train.abs() - high).abs() < 1e-9)).all())
    told = settle(model, batch, most=100)
    fired = torch.stack([(train.abs() > 1e-12).flatten(1).any(1) for train in trains]).any(0)
    assert told.steps == int(fired.sum()) == int(fired.nonzero().max()) + 1
    count = sum(int((train.abs() > 1e-12).sum()) for train in trains)
    assert told.spikes_per_value == pytest.approx(count / sum(train[0].numel() for train in trains))
    torch.testing.assert_close(last, model(**batch)[0], rtol=0, atol=1e-12)


def test_too_few_steps_are_told(small: Any, batch: dict[str, Tensor]) -> None:
    model = converted(BertModel(small()), batch)
    told = settle(model, batch, most=2)
    assert not told.settled
    assert told.difference > 1e-3
    assert told.steps == 2
    assert next(model.parameters()).dtype == torch.float32, "the model itself is left as it was"


def test_other_neurons_do_not_settle(small: Any, batch: dict[str, Tensor]) -> None:
    model = calibrate(spikify(BertModel(small()), "bispike", T=1), batch)
    with pytest.raises(ConfigError, match="only ST-BIF"):
        settle(model, batch, most=3)
