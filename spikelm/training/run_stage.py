"""One run's training and measurements: its stage is built, fitted, saved, measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from spikelm.config.schema import Config
from spikelm.data.batches.by_step import step_seed
from spikelm.machine.cpu import keep_heap
from spikelm.measure.trained_model import measure_firing, measure_model
from spikelm.models.bert import parameter_count
from spikelm.runs.tracking import Tracker
from spikelm.store.store import Run
from spikelm.training.amplitudes import amplitudes_missing, set_amplitudes
from spikelm.training.best_epoch import best_keeper, reported_scores, select_mode
from spikelm.training.devices.acceleration import accelerated
from spikelm.training.devices.ranks import Ranks, first_rank_first
from spikelm.training.devices.sharding import twin_of, whole_state
from spikelm.training.fit import fit, quiet_libraries
from spikelm.training.stage import Stage, build_stage

ONE = Ranks()


def train_and_measure(
    config: Config, run: Run, needed: Mapping[str, Path], tracker: Tracker, console: Console, ranks: Ranks = ONE
) -> dict[str, Any]:
    """Train the run's model and measure it; the part of the result that comes from both, on the first rank."""
    quiet_libraries()
    if config.trainer.keep_heap:
        keep_heap()
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    torch.manual_seed(config.seed)
    with first_rank_first(ranks):
        stage = build_stage(config, needed, console)
    stage.train.shard = (ranks.rank, ranks.world)
    model = stage.module.model
    if amplitudes_missing(model):
        _set_amplitudes(stage, config.stage.amplitudes.calibrate, ranks.rank)
    initial = measure_firing(model, stage.samples) if config.fires and ranks.first else {}

    def log(step: int, values: dict[str, float]) -> None:
        if ranks.first:
            run.append_metrics(step, values)
            tracker.log(step, values)

    def truncate(step: int) -> None:
        if ranks.first:
            run.truncate_metrics(step, "train/")  # what is measured at this step is measured again

    best = best_keeper(config)
    shared_out = config.trainer.strategy == "fsdp" and ranks.world > 1
    twin = twin_of(model) if shared_out and ranks.first else None
    with accelerated(model, config.trainer):
        fit(
            module=stage.module,
            train=stage.train,
            evaluation=stage.evaluation,
            config=config.trainer,
            folder=run.checkpoints,
            console=console,
            title=f"{config.task.name} {config.neuron.name} T={config.time_steps}",
            log=log,
            on_resume=truncate,
            evaluate_every=stage.evaluate_every,
            extra=[best] if best else [],
            ranks=ranks,
        )
    state = whole_state(model) if shared_out else {}
    if not ranks.first:
        return {}
    if twin is not None:
        model = stage.module.model = twin
        model.load_state_dict(state)
    metrics = stage.module.scores
    if best:
        model.load_state_dict(best.weights)
        metrics = reported_scores(config, best.scores, metrics)
    model.save_pretrained(run.model)
    measured = stage.measure(model, stage.samples) if stage.measure else measure_model(model, stage.samples, config)
    if config.fires:
        log(
            stage.module.total,
            {f"firing/{site}": rate for site, rate in measured["firing_rate"]["per_site"].items()},
        )
        measured["firing_rate"]["initial_per_site"] = initial
    return {
        **measured,
        **(stage.report() if stage.report else {}),
        "bits": config.bits,
        "metrics": metrics,
        "select": select_mode(config),
        "constant_predictor": stage.constant,
        "source": stage.source,
        "parameters": parameter_count(model),
        "steps": stage.module.total,
        "threads": torch.get_num_threads(),  # another number may change the last digits
    }


def _set_amplitudes(stage: Stage, batches: int, rank: int) -> None:
    """From the first training batches, exactly as step 0 sees them."""

    def forward(batch: Any) -> None:
        torch.manual_seed(step_seed(stage.module.seed, 0, f"dropout {rank}"))
        stage.module.training_step(batch, 0)

    set_amplitudes(stage.module.model, (stage.train[step] for step in range(batches)), forward)
