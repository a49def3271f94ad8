"""The energy card of a result: the one that it has, or of an older result the counts that its sizes and rates imply."""

from __future__ import annotations

from spikelm.catalog.counts import ModelCounts
from spikelm.catalog.energy import encoder_terms
from spikelm.catalog.estimators import Estimate, estimates
from spikelm.catalog.expected_counts import Together, expected_counts
from spikelm.catalog.kinds import kind_of
from spikelm.errors import SpikeLMError
from spikelm.measure.workload import measured_terms
from spikelm.store.result import Result


def counts_of(result: Result, together: Together = "independent") -> ModelCounts | None:
    """What was counted, or what is expected of an encoder of BERT's blocks; None where neither can be said.

    `together` says of the latter which values fire together.
    """
    if result.energy_card is not None:
        return result.energy_card.counts
    config, rates = result.config, result.firing_rate
    kind = kind_of(config.backbone)
    if result.energy_mj.fp32 is None or kind.seq2seq or kind.plain is not encoder_terms or kind.spiking:
        return None
    try:
        return expected_counts(
            measured_terms(config, spiking=config.fires),
            rates.per_site if config.fires else None,
            config.backbone,
            config.measure.length,
            config.time_steps,
            signed=result.bits.activations != 1,
            virtual_steps=rates.virtual_steps or 1,
            parameters=result.parameters,
            together=together,
        )
    except (SpikeLMError, TypeError, ValueError):
        return None  # other sites than this architecture's, or sizes that its record does not have


def estimates_of(result: Result, together: Together = "independent") -> list[Estimate]:
    """Every estimator's line; none where there are no counts."""
    if result.energy_card is not None:
        return [Estimate(**dict(line)) for line in result.energy_card.modelled]
    counts = counts_of(result, together)
    return estimates(counts) if counts else []
