"""A valid result that a test makes up: every field is there, and any of them can be another."""

from __future__ import annotations

from typing import Any

from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import NeuronSpec
from spikelm.machine.environment import Environment
from spikelm.store.result import Result

ENVIRONMENT = Environment("0" * 40, False, "3", "Linux", 2, {"torch": "2"})


def made_up(**changes: Any) -> Result:
    """A finished spiking run on glue/rte, with `changes`."""
    return Result.model_validate(made_up_record(**changes))


def made_up_record(**changes: Any) -> dict[str, Any]:
    """The same before it is checked."""
    record: dict[str, Any] = {
        "run_id": "0123456789abcdef",
        "finished_at": "2026-01-01T00:00:00+00:00",
        "task": "glue/rte",
        "system": "SpikeLM",
        "scale": "smoke",
        "recipe": "",
        "seed": 42,
        "select": "last",
        "source": {"name": "embedded", "rows": {"train": 8}, "content_hash": "ab"},
        "metrics": {"accuracy": 50.0},
        "constant_predictor": {"accuracy": 50.0},
        "energy_mj": {"fp32": 1.0, "fp16": 0.5},
        "energy_ann_mj": {"fp32": 4.0, "fp16": 2.0},
        "firing_rate": {"mean": 0.25, "per_site": {"layer.0": 0.1}},
        "spike_driven": {
            **{"verdict": "fully", "operations": "ACs", "spike_driven": True},
            **{"real_valued": ["classifier"], "silent": []},
        },
        "bits": {"weights": 32, "activations": "ter"},
        "parameters": 1000,
        "steps": 12,
        "threads": 1,
        "seconds": 12.5,
        "peak_memory_mb": 100.0,
        "pretrained": None,
        "teacher": None,
        "teacher_metrics": {},
        "git_commit": None,
        "versions": {"torch": "2"},
        "config": Config(neuron=NeuronSpec("spikelm.neurons.lif.LIF", name="lif"), T=4),
        "files": {},
    }
    return record | changes
