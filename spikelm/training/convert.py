"""Conversion without training: amplitudes are set on training rows, and what came of it is compared with the ANN."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch
from spikelm.errors import ConfigError
from spikelm.measure.converted import Conversion, conversion_errors, run_time_additions
from spikelm.measure.trained_model import audit_rows
from spikelm.spiking import calibrate
from spikelm.spiking.calibrate import elastic_neurons
from spikelm.spiking.settle import settle
from spikelm.training.devices.ranks import on_device, summed
from spikelm.training.stage import Stage


def set_amplitudes(stage: Stage, config: Config) -> int:
    """Set the amplitudes on the first training batches, without dropout; the rows that all devices have seen."""
    model = stage.module.model
    if not elastic_neurons(model):
        return 0
    inputs, rows = tuple(stage.samples[0]), 0
    batches = []
    for step in range(config.stage.amplitudes.calibrate):
        batch = stage.train[step]
        rows += len(batch["input_ids"])
        batches.append({name: batch[name] for name in inputs})
    calibrate(model, batches)
    return int(summed(torch.tensor(float(rows), dtype=torch.float64, device=model.device)))


def describe(stage: Stage, config: Config, samples: Sequence[Batch], rows: int, device: torch.device) -> Conversion:
    """What the conversion did, on the rows that firing rates are measured on."""
    if stage.plain is None:
        raise ConfigError(f"{config.kind.title} cannot be converted", "convert=none")
    model = stage.module.model
    blocks, sites = conversion_errors(model, stage.plain().to(device), samples)
    settled = None
    if config.convert.settle:
        settled = settle(model.cpu(), on_device(audit_rows(samples), torch.device("cpu")), config.convert.settle)
        model.to(device)
    return Conversion(
        batches=config.stage.amplitudes.calibrate if rows else 0,
        rows=rows,
        rotation=config.convert.rotation,
        rotation_additions=run_time_additions(model),
        blocks=blocks,
        sites=sites,
        settled=settled,
    )
