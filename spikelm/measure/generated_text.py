"""What is measured on a model that generates texts: its energy at the task's lengths and of what it really wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from spikelm.catalog.energy import (
    Term,
    energy_mj,
    generation_terms,
    lm_head_terms,
    seq2seq_terms,
    spiking_energy_mj,
)
from spikelm.config.settings.schema import Config
from spikelm.config.settings.task import GenerateConfig
from spikelm.measure.audit import AuditReport, audit
from spikelm.measure.trained_model import (
    EnergyDetail,
    GeneratedEnergy,
    Measured,
    measure_firing,
    measure_plain,
    measure_terms,
    prompt,
)

DECODED = {"rows": 2, "read": 8, "tokens": 8}  # of the audit while generating
Lengths = Sequence[tuple[int, int]]  # tokens read and generated, of each text


def generate_options(settings: GenerateConfig) -> dict[str, Any]:
    """task.generate in the words of transformers' generate()."""
    return {
        "num_beams": settings.beams,
        "min_length": settings.min_length,
        "max_length": settings.max_length,
        "length_penalty": settings.length_penalty,
        "no_repeat_ngram_size": settings.no_repeat_ngram,
        "early_stopping": settings.beams > 1,
        "do_sample": False,
    }


def audit_decoding(model: nn.Module, batch: Mapping[str, Tensor], T: int, options: Mapping[str, Any]) -> AuditReport:
    """The audit while texts are generated from the cache of spikes: a few rows, a few tokens, all of them made."""
    few = {name: tensor[: DECODED["rows"]] for name, tensor in prompt(batch).items()}
    return audit(model, few, T, generate={**options, "min_length": DECODED["tokens"], "max_length": DECODED["tokens"]})


def audit_going_on(model: nn.Module, batch: Mapping[str, Tensor], T: int) -> AuditReport:
    """The same for a decoder, which goes on with the first tokens of a few rows."""
    few = {name: tensor[: DECODED["rows"], : DECODED["read"]] for name, tensor in prompt(batch).items()}
    made = DECODED["tokens"]
    greedy = {"num_beams": 1, "do_sample": False, "min_new_tokens": made, "max_new_tokens": made, "pad_token_id": 0}
    return audit(model, few, T, generate=greedy)


def measure_seq2seq(
    model: nn.Module,
    samples: Sequence[Mapping[str, Tensor]],
    config: Config,
    lengths: Lengths,
    options: Mapping[str, Any],
    vocab: int,
) -> Measured:
    """Of BART and its kin: energy at the task's full lengths, teacher-forced, and of what was generated; LM head apart.

    `lengths` are those of the generated texts, `options` those of generate().
    """
    size, task, T = config.backbone, config.task, config.time_steps
    sizes = (size.layers, size.decoder_layers or size.layers, size.hidden, size.intermediate)
    forced = seq2seq_terms(*sizes, task.source_length, task.target_length)
    measured = measure_terms(model, samples, forced, T, config.fires, low_bit=config.converted and not config.fires)
    beams = int(options["num_beams"])
    sources, targets = zip(*lengths, strict=True)
    terms = generation_terms(*sizes, sources, targets, beams)
    ann = energy_mj(terms)
    rates = measure_firing(model, samples, options) if config.fires else {}
    spiking = spiking_energy_mj(terms, rates, T) if config.fires else ann
    measured.spike_driven.decoding = audit_decoding(model, samples[0], T, options).verdict
    measured.energy_detail = EnergyDetail(
        {"source": task.source_length, "target": task.target_length},
        _generated(spiking, ann, beams, lengths, rates),
        energy_mj(lm_head_terms(size.hidden, vocab, task.target_length)),
    )
    return measured


def measure_plain_generation(
    terms: Callable[[int, int, int], Sequence[Term]],
    at: tuple[int, int],
    lengths: Lengths,
    beams: int,
    head: float,
    parts: Sequence[str],
) -> Measured:
    """Of a model without neurons: `terms` of a source, a target and beams, `at` the task's lengths and as generated."""
    generated = sum(energy_mj(terms(source, target, beams)) for source, target in lengths) / len(lengths)
    measured = measure_plain(terms(*at, 1), parts)
    measured.energy_detail = EnergyDetail(
        {"source": at[0], "target": at[1]}, _generated(generated, generated, beams, lengths, {}), head
    )
    return measured


def _generated(energy: float, ann: float, beams: int, lengths: Lengths, rates: dict[str, float]) -> GeneratedEnergy:
    sources, targets = zip(*lengths, strict=True)
    return GeneratedEnergy(energy, ann, beams, sum(sources) / len(sources), sum(targets) / len(targets), rates)
