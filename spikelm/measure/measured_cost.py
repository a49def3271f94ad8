"""What a forward pass takes on this machine: time and bytes always, Joules where there is a meter; nothing modelled."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.catalog.counts import ModelCounts
from spikelm.machine.joules import MeasuredEnergy, Spread, measure_joules
from spikelm.machine.meters import Meters, NotMeasurable, find_meters

REPEATS = 3
ENOUGH = 5.0  # seconds after which a pass is not repeated


@dataclass(frozen=True)
class MeasuredCost:
    """Seconds of a pass and of one of its inputs, bytes that products read and wrote in torch, and the energy."""

    seconds: Spread  # of one input
    rows: int
    repeats: int
    product_bytes: float  # of one input
    energy: MeasuredEnergy | NotMeasurable  # of a pass


def measured_cost(
    model: nn.Module,
    batch: Mapping[str, Any] | Sequence[Any] | Tensor,
    rows: int,
    counts: ModelCounts,
    meters: Meters | None = None,
) -> MeasuredCost:
    """Run a batch of so many rows as it is; with a meter it is repeated until there is something to read."""
    meters = find_meters() if meters is None else meters
    named = batch if isinstance(batch, Mapping) else {}
    ordered: Sequence[Any] = () if named else (batch,) if isinstance(batch, Tensor) else tuple(batch)

    @torch.inference_mode()
    def work() -> None:
        model(*ordered, **named)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    training = model.training
    model.eval()
    try:
        if meters.found:
            metered = measure_joules(work, meters)
            seconds, repeats, energy = metered.seconds, metered.repeats, metered.energy
        else:
            passes: list[float] = []
            while len(passes) < REPEATS and sum(passes) < ENOUGH:
                started = time.perf_counter()
                work()
                passes.append(time.perf_counter() - started)
            seconds, repeats = Spread.of(passes), len(passes)
            reasons = "; ".join(one.because for one in meters.missing) or "this machine has no energy counter"
            energy = NotMeasurable("energy", reasons, next((one.fix for one in meters.missing if one.fix), ""))
    finally:
        model.train(training)
    one = Spread(seconds.median / rows, seconds.least / rows, seconds.most / rows)
    moved = sum(product.bytes_seen for product in counts.products) / counts.rows
    return MeasuredCost(one, rows, repeats, moved, energy)
