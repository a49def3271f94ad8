"""Everything measured on a trained model: firing rates, energy, audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.catalog.energy import Term, energy_mj, mean_rate, spiking_energy_mj
from spikelm.config.schema import Config
from spikelm.measure.audit import AuditReport, audit
from spikelm.measure.firing import FiringMeter
from spikelm.measure.workload import measured_terms

AUDIT_ROWS = 8
DECODED = {"rows": 2, "tokens": 8}  # of the audit while generating


@torch.no_grad()
def measure_firing(
    model: nn.Module, samples: Sequence[Mapping[str, Tensor]], generate: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Firing rate of each site over the samples, without dropout; with `generate` (its options) while decoding."""
    training = model.training
    model.eval()
    with FiringMeter(model) as meter:
        for batch in samples:
            if generate is None:
                model(**batch)
            else:
                model.generate(**_prompt(batch), **generate)  # type: ignore[operator]
    model.train(training)
    return meter.by_site()


def _prompt(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What generate() is given of a training batch: no labels, no decoder input."""
    return {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}


def audit_decoding(model: nn.Module, batch: Mapping[str, Tensor], T: int, options: Mapping[str, Any]) -> AuditReport:
    """The audit while texts are generated from the cache of spikes: a few rows, a few tokens, all of them made."""
    few = {name: tensor[: DECODED["rows"]] for name, tensor in _prompt(batch).items()}
    return audit(model, few, T, generate={**options, "min_length": DECODED["tokens"], "max_length": DECODED["tokens"]})


def measure_model(model: nn.Module, samples: Sequence[Mapping[str, Tensor]], config: Config) -> dict[str, Any]:
    """energy_mj, energy_ann_mj, firing_rate and spike_driven of a result."""
    terms, plain = measured_terms(config, spiking=True), measured_terms(config)
    low_bit = config.converted and not config.fires
    return measure_terms(model, samples, terms, config.time_steps, config.fires, low_bit=low_bit, plain=plain)


def measure_terms(
    model: nn.Module,
    samples: Sequence[Mapping[str, Tensor]],
    terms: Sequence[Term],
    T: int,
    spiking: bool,
    generate: Mapping[str, Any] | None = None,
    low_bit: bool = False,
    plain: Sequence[Term] | None = None,
) -> dict[str, Any]:
    """The same for any model whose matmuls are `terms`; with `generate` rates and audit are those of decoding.

    A `low_bit` model neither spikes nor multiplies floats: no energy is claimed for it, as in the paper's tables.
    `plain` are the matmuls of the ANN beside it, where they are not the same.
    """
    model = model.cpu()
    ann = {kind: energy_mj(plain or terms, kind) for kind in ("fp32", "fp16")}  # type: ignore[arg-type]
    few = {name: tensor[:AUDIT_ROWS] for name, tensor in samples[0].items()}
    report = audit(model, few if generate is None else _prompt(few), T, generate=generate).to_dict()
    verdict = {key: report[key] for key in ("verdict", "operations", "spike_driven", "real_valued", "silent")}
    if not spiking:
        rates: dict[str, Any] = {"mean": None, "per_site": {}}
        energy = dict.fromkeys(ann) if low_bit else ann
        return {"energy_mj": energy, "energy_ann_mj": ann, "firing_rate": rates, "spike_driven": verdict}
    per_site = measure_firing(model, samples, generate)
    found = {kind: spiking_energy_mj(terms, per_site, T, kind) for kind in ("fp32", "fp16")}  # type: ignore[arg-type]
    return {
        "energy_mj": found,
        "energy_ann_mj": ann,
        "firing_rate": {"mean": _mean(terms, per_site), "per_site": per_site},
        "spike_driven": verdict,
    }


def _mean(terms: Sequence[Term], rates: Mapping[str, float]) -> float:
    """Weighted by the MACs that the sites feed; the plain mean where spikes feed none (SpikeGPT)."""
    return mean_rate(terms, rates) if any(term.site for term in terms) else fmean(rates.values())
