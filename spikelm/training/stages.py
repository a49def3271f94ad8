"""The two stages a run can be, pretraining and fine-tuning: data to model to fit to measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from rich.console import Console
from torch import nn

from spikelm.check import typed
from spikelm.data.batches import Batch, RowBatches, StepBatches, evaluation_batches, step_seed
from spikelm.data.cache import encoded_documents, encoded_rows
from spikelm.data.encode import encode_rows
from spikelm.data.pretraining import PretrainingBatches
from spikelm.data.sources import Text, load_documents, load_rows
from spikelm.data.tokenizer import load_tokenizer
from spikelm.measure.metrics import constant_predictor
from spikelm.measure.model import AUDIT_ROWS, measure_firing, measure_model
from spikelm.models.bert import build_classifier, build_pretraining_model, parameter_count
from spikelm.neurons.bispike import BiSpike
from spikelm.schema import Config
from spikelm.spiking import neurons
from spikelm.store import Run
from spikelm.tracking import Tracker
from spikelm.training.fit import fit, quiet_libraries
from spikelm.training.modules import INPUTS, GlueModule, PretrainModule, StageModule
from spikelm.training.optimization import total_steps
from spikelm.training.ranks import Ranks, first_rank_first
from spikelm.training.selection import best_keeper, reported_scores, select_mode

ONE = Ranks()
EVALUATION_BATCH = 128
PRETRAINING_EVALUATION_PAIRS = 512


@dataclass
class Stage:
    """All that a fit needs, and what its result says about the data."""

    module: StageModule
    train: StepBatches
    evaluation: list[list[Batch]]
    samples: list[Batch]  # what firing rates and energy are measured on
    evaluate_every: int
    source: dict[str, Any]
    constant: dict[str, float]


def train_and_measure(
    config: Config, run: Run, pretrained: Path | None, tracker: Tracker, console: Console, ranks: Ranks = ONE
) -> dict[str, Any]:
    """Train the run's model and measure it; the part of the result that comes from both, on the first rank."""
    quiet_libraries()
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    torch.manual_seed(config.seed)
    with first_rank_first(ranks):
        pretraining = config.task.kind == "pretrain"
        stage = _pretraining(config, console) if pretraining else _fine_tuning(config, pretrained, console)
    stage.train.shard = (ranks.rank, ranks.world)
    model = stage.module.model
    set_amplitudes(stage.module, stage.train[0], ranks.rank)
    initial = measure_firing(model, stage.samples) if config.spiking and ranks.first else {}

    def log(step: int, values: dict[str, float]) -> None:
        if ranks.first:
            run.append_metrics(step, values)
            tracker.log(step, values)

    def truncate(step: int) -> None:
        if ranks.first:
            run.truncate_metrics(step + 1)

    best = best_keeper(config)
    fit(
        module=stage.module,
        train=stage.train,
        evaluation=stage.evaluation,
        config=config.trainer,
        folder=run.checkpoints,
        console=console,
        title=f"{config.task.name} {config.neuron['name']} T={config.time_steps}",
        log=log,
        on_resume=truncate,
        evaluate_every=stage.evaluate_every,
        extra=[best] if best else [],
        ranks=ranks,
    )
    if not ranks.first:
        return {}
    metrics = stage.module.scores
    if best:
        model.load_state_dict(best.weights)
        metrics = reported_scores(config, best.scores, metrics)
    model.save_pretrained(run.model)
    measured = measure_model(model, stage.samples, config)
    if config.spiking:
        log(
            stage.module.total,
            {f"firing/{site}": rate for site, rate in measured["firing_rate"]["per_site"].items()},
        )
        measured["firing_rate"]["initial_per_site"] = initial
    return {
        **measured,
        "metrics": metrics,
        "select": select_mode(config),
        "constant_predictor": stage.constant,
        "source": stage.source,
        "parameters": parameter_count(model),
        "steps": stage.module.total,
        "threads": torch.get_num_threads(),  # another number may change the last digits
    }


@torch.no_grad()
def set_amplitudes(module: StageModule, batch: Batch, rank: int = 0) -> None:
    """Let the first training batch set the amplitudes that no checkpoint brought, exactly as step 0 sees it."""
    if any(isinstance(neuron, BiSpike) and not neuron.ready for neuron in neurons(module.model)):
        module.model.train()
        torch.manual_seed(step_seed(module.seed, 0, f"dropout {rank}"))
        module.training_step(batch, 0)


def _pretraining(config: Config, console: Console) -> Stage:
    text = _announced(load_documents(config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    stage = config.pretrain
    batches = [
        PretrainingBatches(
            encoded_documents(text, split, tokenizer, cache), tokenizer, config.seed, size, stage.max_length
        )
        for split, size in (("train", stage.batch), ("validation", EVALUATION_BATCH))
    ]
    train, held_out = batches
    total = total_steps(stage, train.steps_per_epoch)
    model: nn.Module = build_pretraining_model(config, tokenizer.get_vocab_size())
    return Stage(
        module=PretrainModule(model, stage, total, config.seed),
        train=train,
        evaluation=[held_out.fixed(PRETRAINING_EVALUATION_PAIRS)],
        samples=_sample(train.fixed(config.measure.samples)),
        evaluate_every=max(1, total // 5),
        source=text.record(config.source),
        constant={},
    )


def _fine_tuning(config: Config, pretrained: Path | None, console: Console) -> Stage:
    task, stage = config.task, config.finetune
    text = _announced(load_rows(task, config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    encoded = {split: encoded_rows(text, split, task, tokenizer, stage.max_length, cache) for split in text.splits}
    train = RowBatches(encoded["train"], config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    model = build_classifier(config, pretrained / "model" if pretrained else None)
    first = next(iter(task.splits))
    regression = task.kind == "regression"
    constant: dict[str, float] = {}
    for split, suffix in task.splits.items():
        labels = torch.from_numpy(encoded[split].labels)
        found = constant_predictor(labels, task.metrics, max(1, len(task.labels)), regression)
        constant |= {f"{name}{suffix}": found[name] for name in task.metrics}
    return Stage(
        module=GlueModule(model, task, stage, total, config.seed),
        train=train,
        evaluation=[evaluation_batches(encoded[split], EVALUATION_BATCH) for split in task.splits],
        samples=_sample([RowBatches(encoded[first], 0, config.measure.samples)[0]]),
        evaluate_every=train.steps_per_epoch,
        source=text.record(config.source),
        constant=constant,
    )


def audit_batch(saved: Mapping[str, Any]) -> Batch:
    """The first rows of a finished run's measurement samples, from its recorded config."""
    config = typed(OmegaConf.create(dict(saved)))
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    if config.task.kind == "pretrain":
        documents = encoded_documents(load_documents(config.source), "train", tokenizer, cache)
        stage = config.pretrain
        samples = PretrainingBatches(documents, tokenizer, config.seed, stage.batch, stage.max_length).fixed(AUDIT_ROWS)
    else:
        split = next(iter(config.task.splits))
        rows = load_rows(config.task, config.source).splits[split][:AUDIT_ROWS]
        samples = evaluation_batches(encode_rows(config.task, rows, tokenizer, config.finetune.max_length), AUDIT_ROWS)
    return _sample(samples)[0]


def _announced(text: Text, console: Console) -> Text:
    for warning in text.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return text


def _sample(batches: Sequence[Batch]) -> list[Batch]:
    return [{name: batch[name] for name in INPUTS} for batch in batches]
