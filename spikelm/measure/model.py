"""Everything measured on a trained model: firing rates, energy, audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.measure.audit import audit
from spikelm.measure.energy import Term, encoder_terms, energy_mj, mean_rate, spiking_energy_mj
from spikelm.measure.firing import FiringMeter
from spikelm.schema import Config

AUDIT_ROWS = 8


@torch.no_grad()
def measure_firing(model: nn.Module, samples: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    """Firing rate of each site over the samples, without dropout."""
    training = model.training
    model.eval()
    with FiringMeter(model) as meter:
        for batch in samples:
            model(**batch)
    model.train(training)
    return meter.by_site()


def backbone_terms(config: Config) -> list[Term]:
    """The matmuls of the config's encoder at the length the energy is counted for."""
    size = config.backbone
    return encoder_terms(size.layers, size.hidden, size.intermediate, config.measure.length)


def measure_model(model: nn.Module, samples: Sequence[Mapping[str, Tensor]], config: Config) -> dict[str, Any]:
    """energy_mj, energy_ann_mj, firing_rate and spike_driven of a result."""
    model = model.cpu()
    terms = backbone_terms(config)
    ann = {"fp32": energy_mj(terms, "fp32"), "fp16": energy_mj(terms, "fp16")}
    few = {name: tensor[:AUDIT_ROWS] for name, tensor in samples[0].items()}
    report = audit(model, few, config.time_steps).to_dict()
    verdict = {key: report[key] for key in ("verdict", "spike_driven", "real_valued", "silent")}
    if not config.spiking:
        rates: dict[str, Any] = {"mean": None, "per_site": {}}
        return {"energy_mj": ann, "energy_ann_mj": ann, "firing_rate": rates, "spike_driven": verdict}
    per_site = measure_firing(model, samples)
    energy = {kind: spiking_energy_mj(terms, per_site, config.time_steps, kind) for kind in ("fp32", "fp16")}  # type: ignore[arg-type]
    return {
        "energy_mj": energy,
        "energy_ann_mj": ann,
        "firing_rate": {"mean": mean_rate(terms, per_site), "per_site": per_site},
        "spike_driven": verdict,
    }
