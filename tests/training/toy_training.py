"""A training of a second: a linear model, batches made from their step, everything a real fit does around it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from spikelm.config.settings.running import TrainerConfig
from spikelm.config.settings.stages import ScheduleConfig, StageConfig
from spikelm.data.batches.by_step import Batch, StepBatches
from spikelm.store.metrics_csv import MetricsCsv
from spikelm.training.best_epoch import BestDev
from spikelm.training.fit import Fit, Journal, fit, quiet_libraries
from spikelm.training.modules import StageModule

STEPS = 9
EPOCH = 3  # steps between evaluations


class Toy(StageModule):
    """Least squares with dropout; `at(place, step)` is called wherever a real run may be hit."""

    def __init__(self, at: Callable[[str, int], None]) -> None:
        torch.manual_seed(0)
        stage = StageConfig(steps=STEPS, lr=1e-2, schedule=ScheduleConfig(warmup=0.2))
        super().__init__(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)), stage, STEPS, seed=1)
        self.at = at

    def step_loss(self, batch: Batch) -> Tensor:
        self.at("train", self.global_step)
        return self.model(batch["input_ids"]).square().mean()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.at("evaluate", self.global_step)
        self.found = float(self.model(batch["input_ids"]).square().mean())

    def on_validation_epoch_end(self) -> None:
        self.scores = {"score": self.found - abs(self.global_step - 2 * EPOCH)}  # the best is not the last


class ToyBatches(StepBatches):
    """Random rows of a step's own."""

    steps_per_epoch = EPOCH

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, step: int) -> Batch:
        return {"input_ids": torch.randn(8, 4, generator=torch.Generator().manual_seed(step))}


@dataclass
class Outcome:
    """What must not depend on what happened on the way."""

    rows: list[tuple[int, str, float]]
    weights: dict[str, Any]
    best: tuple[float, int]
    said: str = field(compare=False)


def train(folder: Path, at: Callable[[str, int], None] = lambda place, step: None, every: int = 2) -> Outcome:
    """Train, or go on, in a folder."""
    quiet_libraries()
    metrics, module, best = MetricsCsv(folder / "metrics.csv"), Toy(at), BestDev("score")
    folder.mkdir(exist_ok=True)
    console = Console(file=io.StringIO(), record=True, width=400)
    config = TrainerConfig(accelerator="cpu", log_every=1, checkpoint_every=every)
    evaluation = [[ToyBatches(0, 8)[100]]]
    try:
        work = Fit(module, ToyBatches(0, 8), evaluation, EPOCH, "toy")
        journal = Journal(folder / "checkpoints", console, metrics.append, metrics.text, metrics.restore)
        fit(work, config, journal, [best])
    finally:
        metrics.close()
    weights = {name: tensor.tolist() for name, tensor in module.model.state_dict().items()}
    return Outcome(sorted(metrics.rows()), weights, (best.best, best.step), console.export_text())


def places() -> Iterator[tuple[str, int]]:
    """Every moment that `at` is told of."""
    yield from (("train", step) for step in range(STEPS))
    yield from (("evaluate", step) for step in range(EPOCH, STEPS + 1, EPOCH))
