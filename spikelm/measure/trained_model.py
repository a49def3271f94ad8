"""Everything measured on a trained model: firing rates, energy, audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.catalog.energy import PICOJOULE, Term, energy_mj, mean_rate, spiking_energy_mj
from spikelm.config.settings.schema import Config
from spikelm.measure.audit import AuditReport, OperatorUse, audit
from spikelm.measure.firing import FiringMeter
from spikelm.measure.workload import measured_terms
from spikelm.store.result import EnergyCard

AUDIT_ROWS = 8


@dataclass
class FiringRates:
    """Share of non-zero spikes; `mean` is weighted by the MACs that the sites feed, None of a model without spikes.

    Where neurons unfold, each value may take several spikes: then it is the number of spikes a value.
    """

    mean: float | None = None
    per_site: dict[str, float] = field(default_factory=dict)
    initial_per_site: dict[str, float] | None = None  # before training
    virtual_steps: int | None = None  # the most that a neuron took inside a time step


@dataclass
class SpikeDriven:
    """What the audit says in a result."""

    verdict: str = "none"
    operations: str = "MACs"
    spike_driven: bool = False
    real_valued: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    decoding: str | None = None  # the verdict while texts are generated
    operators: list[OperatorUse] | None = None  # what is computed besides matmuls; None where nothing was run

    @classmethod
    def of(cls, report: AuditReport) -> SpikeDriven:
        """The summary of an audit."""
        verdict = report.verdict, report.operations, report.spike_driven, report.real_valued, report.silent
        return cls(*verdict, operators=report.operators)


@dataclass
class GeneratedEnergy:
    """Energy of what was really generated, in the mean over the texts."""

    fp32: float
    ann_fp32: float
    beams: int
    mean_source: float
    mean_target: float
    firing_rate_per_site: dict[str, float]


@dataclass
class EnergyDetail:
    """Of a model that generates: the lengths its energy is counted at, what was generated, and the LM head."""

    lengths: dict[str, int]
    generated: GeneratedEnergy
    lm_head_fp32: float


@dataclass
class TokenEnergy:
    """Of a decoder that reads a text of so many tokens one by one: the mean energy of one of them, in mJ fp32."""

    tokens: int
    fp32: float | None  # None where none is claimed
    ann_fp32: float
    lm_head_fp32: float  # real-valued, and in none of the others


@dataclass
class Measured:
    """Energy by precision in mJ (None where none is claimed), that of the plain model, firing rates and audit."""

    energy_mj: dict[str, float | None]
    energy_ann_mj: dict[str, float]
    firing_rate: FiringRates
    spike_driven: SpikeDriven
    energy_detail: EnergyDetail | None = None
    energy_token: TokenEnergy | None = None
    energy_card: EnergyCard | None = None  # None where no energy is claimed, or nothing was run

    def record(self) -> dict[str, Any]:
        """As a result holds it: what does not apply is left out."""
        record = asdict(self)
        for part, names in (
            (record["firing_rate"], ("initial_per_site", "virtual_steps")),
            (record["spike_driven"], ("decoding", "operators")),
        ):
            for name in names:
                if part[name] is None:
                    del part[name]
        for name in ("energy_detail", "energy_token"):
            if record[name] is None:
                del record[name]
        del record["energy_card"]
        if self.energy_card is not None:
            record["energy_card"] = self.energy_card.model_dump(mode="json")
        return record


@torch.no_grad()
def measure_firing(
    model: nn.Module, samples: Sequence[Mapping[str, Tensor]], generate: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Count how often each neuron fires: the share of values that are not zero, over all time steps.

    Args:
        model: A spiking model. It is put into eval mode meanwhile, so that there is no dropout.
        samples: Batches, as arguments of the model.
        generate: Options of `model.generate`; then firing is counted while the model decodes texts.

    Returns:
        The firing rate of each site, in the order in which the neurons are called: between 0 and 1, or the spikes a
        value where a neuron unfolds into several.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.measure.trained_model import measure_firing
        >>> from spikelm.spiking import calibrate, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> batch = {"input_ids": torch.randint(100, (8, 16))}
        >>> model = calibrate(spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "bispike", T=2), batch)
        >>> rates = measure_firing(model, [batch])
        >>> "encoder.layer.0.qkv_in" in rates, all(0 <= rate <= 1 for rate in rates.values())
        (True, True)
    """
    return _metered(model, samples, generate).by_site()


@torch.no_grad()
def _metered(
    model: nn.Module, samples: Sequence[Mapping[str, Tensor]], generate: Mapping[str, Any] | None = None
) -> FiringMeter:
    """What a meter counted in eval mode."""
    training = model.training
    model.eval()
    with FiringMeter(model) as meter:
        for batch in samples:
            if generate is None:
                model(**batch)
            else:
                model.generate(**prompt(batch), **generate)  # type: ignore[operator]
    model.train(training)
    return meter


def prompt(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What generate() is given of a training batch: no labels, no decoder input."""
    return {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}


def audit_rows(samples: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The rows that a run's audit looks at: the first of its measurement samples."""
    return {name: tensor[:AUDIT_ROWS] for name, tensor in samples[0].items()}


def measure_model(model: nn.Module, samples: Sequence[Mapping[str, Tensor]], config: Config) -> Measured:
    """Energy, firing rates and audit of a model whose matmuls the config tells."""
    terms, plain = measured_terms(config, spiking=True), measured_terms(config)
    low_bit = (config.spiking or config.quantized) and not config.fires
    return measure_terms(model, samples, terms, config.time_steps, config.fires, low_bit, plain)


def measure_terms(
    model: nn.Module,
    samples: Sequence[Mapping[str, Tensor]],
    terms: Sequence[Term],
    T: int,
    fires: bool,
    low_bit: bool = False,
    plain: Sequence[Term] | None = None,
) -> Measured:
    """The same for any model whose matmuls are `terms`.

    A `low_bit` model neither spikes nor multiplies floats: no energy is claimed for it, as in the paper's tables.
    `plain` are the matmuls of the ANN beside it, where they are not the same.
    """
    ann = energies(plain or terms)
    report = audit(model, audit_rows(samples), T)
    verdict = SpikeDriven.of(report)
    card = EnergyCard.of(report.counts) if report.counts and not low_bit else None
    if not fires:
        claimed: dict[str, float | None] = dict.fromkeys(ann) if low_bit else {**ann}
        return Measured(claimed, ann, FiringRates(), verdict, energy_card=card)
    meter = _metered(model, samples)
    per_site = meter.by_site()
    spiking = {kind: spiking_energy_mj(terms, per_site, T, kind) for kind in PICOJOULE}  # type: ignore[arg-type]
    rates = FiringRates(_mean(terms, per_site), per_site, virtual_steps=meter.virtual_steps)
    return Measured({**spiking}, ann, rates, verdict, energy_card=card)


def measure_plain(terms: Sequence[Term], parts: Sequence[str]) -> Measured:
    """The same for a model without neurons, whose `parts` are all real-valued: nothing has to run."""
    energy = energies(terms)
    return Measured({**energy}, energy, FiringRates(), SpikeDriven(real_valued=list(parts)))


def energies(terms: Sequence[Term]) -> dict[str, float]:
    """Energy of a plain model in mJ, by precision."""
    return {kind: energy_mj(terms, kind) for kind in PICOJOULE}  # type: ignore[arg-type]


def _mean(terms: Sequence[Term], rates: Mapping[str, float]) -> float:
    """Weighted by the MACs that the sites feed; the plain mean where spikes feed none (SpikeGPT)."""
    return mean_rate(terms, rates) if any(term.site for term in terms) else fmean(rates.values())
