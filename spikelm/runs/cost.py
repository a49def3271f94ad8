"""What a run costs: operations, hours at a stated speed, and disk; computed without torch and without the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spikelm.catalog.kinds import LM, UNLABELLED, kind_of
from spikelm.config.devices import device_count
from spikelm.config.settings.running import TrainerConfig
from spikelm.config.settings.schema import Config
from spikelm.measure.flops import row_flops
from spikelm.measure.workload import carried_out

#: TFLOP/s that matmuls of one A100 are taken to reach, by their numbers: peak of its data sheet, share of it.
#: The shares are assumptions, not measurements; trainer.tflops says another speed.
A100 = {"fp32": (19.5, 0.70), "TF32": (156.0, 0.45), "bf16": (312.0, 0.40)}
FLOAT = 4  # bytes
KEPT_CHECKPOINTS = 2  # while a run trains; a third is there while it is written
MOMENTS = {"adamw": 2, "adagrad": 1}


@dataclass(frozen=True)
class Speed:
    """TFLOP/s of one device, and where the number comes from."""

    tflops: float
    origin: str

    def __str__(self) -> str:
        return f"{self.tflops:g} TFLOP/s per device ({self.origin})"


@dataclass(frozen=True)
class Cost:
    """Operations, time and disk of one run, its prerequisites not included; None where it is not known."""

    steps: int | None  # None: only the data can tell
    flops: float | None
    gpu_hours: float | None
    wall_hours: float | None
    running_gb: float | None  # disk at most, while it trains
    finished_gb: float | None  # disk afterwards: the model


def speed_of(trainer: TrainerConfig) -> Speed:
    """What the trainer says, else a share of an A100's peak for the numbers that its matmuls are computed in."""
    if trainer.tflops:
        return Speed(trainer.tflops, "trainer.tflops")
    low = trainer.precision in ("bf16-mixed", "16-mixed")
    name = "bf16" if low else "TF32" if trainer.matmul == "high" else "fp32"
    peak, share = A100[name]
    origin = f"{share:.0%} of an A100's {peak:g} in {name}; trainer.tflops=... sets it"
    return Speed(float(f"{peak * share:.2g}"), origin)


def planned_steps(config: Config) -> int | None:
    """Optimiser steps, where the config or the published number of rows tells them; articles are no rows."""
    stage = config.stage
    rows = None if config.task.kind == LM else config.task.official_rows.get("train")
    if stage.steps is not None:
        return stage.steps
    if config.source.name != "hub" or not rows or not stage.epochs:
        return None
    return stage.epochs * -(-min(rows, config.source.train_rows or rows) // stage.batch)


def cost_of(config: Config) -> Cost:
    """The cost of the config's own run."""
    config = carried_out(config)
    steps = planned_steps(config)
    flops = None if steps is None else float(steps) * config.stage.batch * row_flops(config)
    hours = None if flops is None else flops / (speed_of(config.trainer).tflops * 1e12) / 3600
    parameters = saved_parameters(config)
    checkpoint, model = disk_gb(config, parameters)
    running = model if steps == 0 else model + (KEPT_CHECKPOINTS + 1) * checkpoint
    return Cost(
        steps=steps,
        flops=flops,
        gpu_hours=hours,
        wall_hours=None if hours is None else hours / device_count(config),
        running_gb=running if parameters else None,
        finished_gb=model if parameters else None,
    )


def saved_parameters(config: Config) -> int | None:
    """Parameters of the model that the run leaves; None of a kind that nobody has counted."""
    kind = kind_of(config.backbone)
    count = kind.parameters or kind.saved_parameters
    if count is None:
        return None
    labels = len(config.task.labels) if config.task.kind == "classification" else 1
    return count(replace(config.backbone, layers=config.depth), config.task.kind == "pretrain", labels)


def disk_gb(config: Config, parameters: int | None) -> tuple[float, float]:
    """GB of one checkpoint (weights, the optimiser's moments, the best epoch's weights) and of the saved model."""
    model = (parameters or 0) * FLOAT / 1e9
    best = config.select != "last" and config.task.kind not in UNLABELLED and not config.only_converts
    return model * (1 + MOMENTS[config.stage.optimizer.name] + best), model
