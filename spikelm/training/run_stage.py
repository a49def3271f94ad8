"""One run's training and measurements: its stage is built, fitted, saved, measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch, step_seed
from spikelm.machine.cpu import keep_heap
from spikelm.measure.converted import Conversion
from spikelm.measure.trained_model import Measured, measure_firing, measure_model
from spikelm.measure.workload import Share, device_share
from spikelm.models.bert import parameter_count
from spikelm.store.store import Run
from spikelm.training import convert
from spikelm.training.amplitudes import amplitudes_missing, set_amplitudes
from spikelm.training.best_epoch import BestDev, best_keeper, reported_scores, select_mode
from spikelm.training.callbacks import Log
from spikelm.training.devices.acceleration import accelerated, compiled_parts
from spikelm.training.devices.ranks import Ranks, first_rank_first, on_device, tell, training_device
from spikelm.training.devices.sharding import twin_of, whole_state
from spikelm.training.fit import Fit, Journal, fit, quiet_libraries
from spikelm.training.stage import Stage, Texts, build_stage

ONE = Ranks()
MEASURED_ROWS = 8  # on a GPU, at a time


@dataclass
class Trained:
    """What training and measuring give: a run's result without what the run itself knows."""

    metrics: dict[str, float]
    measured: Measured
    bits: dict[str, Any]
    select: str
    constant_predictor: dict[str, float]
    source: dict[str, Any]
    parameters: int
    steps: int
    threads: int  # another number may change the last digits
    trained_on: dict[str, Any]  # as the result's record of that name
    texts: Texts | None = None
    weights: dict[str, str] | None = None  # the published weights it started from
    conversion: Conversion | None = None  # of a run that is one

    def record(self) -> dict[str, Any]:
        """As a result holds it: what does not apply is left out."""
        texts = {"samples": self.texts.samples, "metric_notes": self.texts.metric_notes} if self.texts else {}
        names = ("bits", "metrics", "select", "constant_predictor", "source", "parameters", "steps", "threads")
        return {
            **self.measured.record(),
            **texts,
            **({"weights": self.weights} if self.weights else {}),
            **({"conversion": asdict(self.conversion)} if self.conversion else {}),
            "trained_on": self.trained_on,
            **{name: getattr(self, name) for name in names},
        }


def train_and_measure(
    config: Config, run: Run, needed: Mapping[str, Path], log: Log, console: Console, ranks: Ranks = ONE
) -> Trained | None:
    """Train the run's model and measure it, on the first rank; None on the others.

    `log` hears of every metric that is written to the run.
    """
    _prepare_process(config)
    with first_rank_first(ranks):
        stage = build_stage(config, needed, console)
    stage.train.shard = (ranks.rank, ranks.world)
    device, share = training_device(config.trainer.accelerator, ranks), _agreed_share(config, ranks)
    if share.accumulate == 1:
        stage.module.to(device)
    rows = convert.set_amplitudes(stage, config) if config.only_converts else 0
    if amplitudes_missing(stage.module.model):  # by all rows at once: on the CPU, where they do not fit the device
        _set_amplitudes(stage, config.stage.amplitudes.calibrate, ranks.rank)
    stage.module.to(device)
    samples = _measured_on(stage.samples, device)
    trains = config.fires and not config.only_converts
    initial = measure_firing(stage.module.model, samples) if trains and ranks.first else None
    best = best_keeper(config)
    journal = _journal(run, log, console, ranks.first)
    if not _fitted(config, share, stage, journal, best, ranks):
        return None
    model, metrics = stage.module.model, stage.module.scores
    if best:
        model.load_state_dict(best.weights)
        metrics = reported_scores(config, best.scores, metrics)
    model.save_pretrained(run.model)
    if stage.save_beside:
        stage.save_beside(run.model)
    model.to(device)  # Lightning has brought it back to the CPU
    measured = stage.measure(model, samples) if stage.measure else measure_model(model, samples, config)
    measured.firing_rate.initial_per_site = initial
    conversion = convert.describe(stage, config, samples, rows, device) if config.only_converts else None
    if config.fires:
        per_site = measured.firing_rate.per_site
        journal.log(stage.module.total, {f"firing/{site}": rate for site, rate in per_site.items()})
    return Trained(
        metrics=metrics,
        measured=measured,
        bits=config.bits,
        select=select_mode(config),
        constant_predictor=stage.constant,
        source=stage.source,
        parameters=parameter_count(model),
        steps=stage.module.total,
        threads=torch.get_num_threads(),
        trained_on={
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "devices": ranks.world,
            "micro_batch": stage.module.micro_batch,
            "activation_checkpointing": share.checkpointing,
            "compiled": compiled_parts(config.trainer, device),
        },
        texts=stage.texts() if stage.texts else None,
        weights=stage.weights,
        conversion=conversion,
    )


def _prepare_process(config: Config) -> None:
    """Quiet libraries, the heap and threads that the config asks for, and the seed of all that is drawn."""
    quiet_libraries()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product: sums in the same order
    if config.trainer.keep_heap:
        keep_heap()
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    torch.manual_seed(config.seed)
    if torch.cuda.is_available():  # said anew for each run: a sweep trains several in one process
        torch.set_float32_matmul_precision(config.trainer.matmul)
        torch.backends.cudnn.allow_tf32 = config.trainer.matmul == "high"  # its LSTMs


def _journal(run: Run, log: Log, console: Console, first: bool) -> Journal:
    """Where the first rank writes down what happens; the others only train."""

    def write(step: int, values: dict[str, float]) -> None:
        run.append_metrics(step, values)
        log(step, values)

    if not first:
        return Journal(run.checkpoints, console, lambda step, values: None, lambda: "", lambda text: None)
    return Journal(run.checkpoints, console, write, run.metrics_text, run.restore_metrics)


def _agreed_share(config: Config, ranks: Ranks) -> Share:
    """How much a device computes at a time: the first rank asks its device, and all do the same."""
    if ranks.world == 1:
        return device_share(config)
    on_all = replace(config, trainer=replace(config.trainer, devices=ranks.world))
    share: Share = tell(device_share(on_all) if ranks.first else None)
    return share


def _measured_on(samples: list[Batch], device: torch.device) -> list[Batch]:
    """The samples where the model is; on a GPU a few rows at a time, as 64 long ones may not fit beside a model."""
    if device.type == "cpu":
        return samples
    cut = [{name: tensor.split(MEASURED_ROWS) for name, tensor in batch.items()} for batch in samples]
    parts = [dict(zip(batch, rows, strict=True)) for batch in cut for rows in zip(*batch.values(), strict=True)]
    return [on_device(part, device) for part in parts]


def _fitted(config: Config, share: Share, stage: Stage, journal: Journal, best: BestDev | None, ranks: Ranks) -> bool:
    """Train the stage's model; whether this rank has the whole of it afterwards."""
    model = stage.module.model
    shared_out = config.trainer.strategy == "fsdp" and ranks.world > 1
    twin = twin_of(model) if shared_out and ranks.first else None
    title = f"{config.task.name} {config.neuron.name} T={config.time_steps}"
    work = Fit(stage.module, stage.train, stage.evaluation, stage.evaluate_every, title)
    stage.module.micro_batch = share.micro_batch if share.accumulate > 1 else None
    with accelerated(model, replace(config.trainer, activation_checkpointing=share.checkpointing)):
        fit(work, config.trainer, journal, [best] if best else [], ranks)
    state = whole_state(model) if shared_out else {}  # all ranks give their shards
    if twin is not None:
        stage.module.model = twin
        twin.load_state_dict(state)
    return ranks.first


def _set_amplitudes(stage: Stage, batches: int, rank: int) -> None:
    """From the first training batches, exactly as step 0 sees them."""

    def forward(batch: Any) -> None:
        torch.manual_seed(step_seed(stage.module.seed, 0, f"dropout {rank}"))
        stage.module.step_loss(on_device(batch, stage.module.device))

    set_amplitudes(stage.module.model, (stage.train[step] for step in range(batches)), forward)
