"""The spiking rivals from config to result, and the neurons of the rows that are BERTs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.runs.experiment import run_experiment

QUIET = Console(quiet=True)

NEURONS = {
    "lif_bert": {"name": "lif", "T": 4, "beta": 0.25, "theta": 1.0, "fire": "threshold"},
    "lif_bert_atan": {"name": "lif_atan", "T": 4, "tau": 2.0, "theta": 1.0},
    "psn_bert": {"name": "psn", "T": 4, "theta": 1.0},
    "spikelm_t1": {"T": 1, "k": 2, "direction": "bi", "elastic": True, "alpha": "frozen"},
    "spikelm_t4": {"T": 4, "k": 2, "direction": "bi", "elastic": True, "alpha": "frozen"},
    "spikelm_k3": {"T": 4, "k": 3, "direction": "bi", "elastic": True, "alpha": "frozen"},
    "spikelm_k4": {"T": 4, "k": 4, "direction": "bi", "elastic": True, "alpha": "frozen"},
    "spikelm_uni": {"T": 4, "k": 2, "direction": "uni", "elastic": True, "alpha": "frozen"},
    "spikelm_fixed": {"T": 4, "direction": "bi", "elastic": False, "alpha": "frozen"},
    "spikelm_learnable": {"T": 4, "k": 2, "direction": "bi", "elastic": True, "alpha": "learnable"},
    "spikingformer_t1": {"name": "lif_sigmoid", "T": 1, "tau": 2.0, "theta": 1.0, "sharpness": 4.0},
    "spikingformer_t4": {"name": "lif_sigmoid", "T": 4, "tau": 2.0, "theta": 1.0, "sharpness": 4.0},
    "spikebert": {"name": "lif_atan", "T": 4, "tau": 2.0, "theta": 1.0},
    "spikegpt": {"name": "lif_token", "T": 1, "tau": 2.0, "theta": 1.0},
}


@pytest.mark.parametrize("system", NEURONS)
@pytest.mark.parametrize(
    "scale", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("smoke", "mini")), "paper"]
)
def test_every_row_has_its_neuron_at_every_scale(system: str, scale: str) -> None:
    config = load_config([f"system={system}", f"scale={scale}"])
    found = {"name": config.neuron.name, "T": config.T, **config.neuron.arguments}
    assert {key: found[key] for key in NEURONS[system]} == NEURONS[system]
    assert config.time_steps == NEURONS[system]["T"]


def test_spikegpt_runs_end_to_end(tmp_path: Path) -> None:
    few = ("pretrain.steps=2", "source.documents=60", "pretrain.batch=8", "measure.samples=8")
    result = run_experiment(load_config(["system=spikegpt", "scale=smoke", *few, f"runs_dir={tmp_path}"]), QUIET).result
    assert set(result.metrics) == {"loss", "perplexity", "accuracy"}
    assert (result.spike_driven.verdict, result.spike_driven.operations) == ("partly", "MACs")
    assert dict(result.energy_mj) == pytest.approx(dict(result.energy_ann_mj))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["spikingformer_t1", "spikingformer_t4", "spikebert"])
def test_rivals_run_end_to_end(system: str, tmp_path: Path) -> None:
    overrides = [f"system={system}", "scale=smoke", "task=glue/sst2", f"runs_dir={tmp_path}"]
    result = run_experiment(load_config(overrides), QUIET).result
    assert (result.spike_driven.verdict, result.spike_driven.operations) == ("fully", "ACs")
    assert result.pretrained
    assert bool(result.teacher) == (system == "spikebert")
