"""What each kind of run is made of: pretraining, general distillation, fine-tuning; data to model to module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn

from spikelm.check import typed
from spikelm.check_kinds import KINDS
from spikelm.data.batches import Batch, RowBatches, StepBatches, evaluation_batches
from spikelm.data.blocks import BlockBatches
from spikelm.data.cache import encoded_documents, encoded_rows
from spikelm.data.corpus import load_documents
from spikelm.data.encode import Encoded, encode_rows
from spikelm.data.pretraining import PretrainingBatches
from spikelm.data.sentences import SentenceBatches
from spikelm.data.sources import Text, load_rows
from spikelm.data.tokenizer import load_tokenizer
from spikelm.measure.metrics import constant_predictor
from spikelm.measure.model import AUDIT_ROWS
from spikelm.models.bert import build_classifier, build_pretraining_model
from spikelm.models.students import build_student, convert, load_teacher, take_head, teacher_encoder
from spikelm.schema import Config
from spikelm.training.modules import INPUTS, GlueModule, PretrainModule, StageModule
from spikelm.training.optimization import total_steps
from spikelm.training.students import GeneralModule, StudentModule, Teacher
from spikelm.training.teacher_cache import CachedTeacher

EVALUATION_BATCH = 128
EVALUATIONS = 10  # of pretraining and general distillation
HELD_OUT_ROWS = 512  # pairs or sentences that pretraining and general distillation are evaluated on


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
    measure: Callable[[nn.Module, list[Batch]], dict[str, Any]] | None = None  # where it is not the encoder's
    report: Callable[[], dict[str, Any]] | None = None  # what else the result holds


def build_stage(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """The stage of a config; `needed` are the directories of its prerequisites by role."""
    if config.backbone.kind in KINDS:
        from spikelm.training.rivals import rival_stage

        return rival_stage(config, needed, console)
    if config.task.kind in ("pretrain", "general"):
        return _unlabelled(config, needed, console)
    if config.task.kind == "seq2seq":
        from spikelm.training.seq2seq_builder import seq2seq_stage

        return seq2seq_stage(config, needed, console)
    return fine_tuning_stage(config, console, partial(_fine_tuned, config, needed))


def _unlabelled(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """Pretraining and general distillation of a BERT."""
    pretraining = config.task.kind == "pretrain"

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        if pretraining:
            model = build_pretraining_model(config, tokenizer.get_vocab_size())
            return PretrainModule(model, config.stage, total, config.seed)
        folder = needed["teacher"] / "model" if "teacher" in needed else None
        student, teacher = build_student(config, folder), Teacher(teacher_encoder(config, folder))
        return GeneralModule(student, teacher, config.stage, total, config.seed)

    return unlabelled_stage(config, console, PretrainingBatches if pretraining else SentenceBatches, module)


def unlabelled_stage(
    config: Config,
    console: Console,
    batches: Callable[..., BlockBatches],
    module: Callable[[Tokenizer, int], StageModule],
    tokenizer: Tokenizer | None = None,
    prepare: Callable[[Text], Text] = lambda text: text,
    held_out_rows: int = HELD_OUT_ROWS,
) -> Stage:
    """Text without labels, evaluated on what is held out; `module` is made for a tokenizer and a number of steps."""
    cache = Path(config.runs_dir) / ".cache"
    text = prepare(announced(load_documents(config.source, cache), console))
    tokenizer = tokenizer or load_tokenizer(config.source, config.backbone, cache)
    stage = config.stage
    train, held_out = (
        batches(encoded_documents(text, split, tokenizer, cache), tokenizer, config.seed, size, stage.max_length)
        for split, size in (("train", stage.batch), ("validation", EVALUATION_BATCH))
    )
    total = total_steps(stage, train.steps_per_epoch)
    return Stage(
        module=module(tokenizer, total),
        train=train,
        evaluation=[held_out.fixed(held_out_rows)],
        samples=_sample(train.fixed(config.measure.samples)),
        evaluate_every=max(1, total // EVALUATIONS),
        source=text.record(config.source),
        constant={},
    )


def fine_tuning_stage(config: Config, console: Console, module: Callable[[int, Encoded, str], GlueModule]) -> Stage:
    """A task with labels; `module` is made for a number of steps, the training rows and the hash of the content."""
    task, stage = config.task, config.finetune
    text = announced(load_rows(task, config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    encoded = {split: encoded_rows(text, split, task, tokenizer, stage.max_length, cache) for split in text.splits}
    train = RowBatches(encoded["train"], config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    first = next(iter(task.splits))
    regression = task.kind == "regression"
    constant: dict[str, float] = {}
    for split, suffix in task.splits.items():
        labels = torch.from_numpy(encoded[split].labels)
        found = constant_predictor(labels, task.metrics, max(1, len(task.labels)), regression)
        constant |= {f"{name}{suffix}": found[name] for name in task.metrics}
    return Stage(
        module=module(total, encoded["train"], text.content_hash),
        train=train,
        evaluation=[evaluation_batches(encoded[split], EVALUATION_BATCH) for split in task.splits],
        samples=_sample([RowBatches(encoded[first], 0, config.measure.samples)[0]]),
        evaluate_every=train.steps_per_epoch,
        source=text.record(config.source),
        constant=constant,
    )


def _fine_tuned(config: Config, needed: Mapping[str, Path], total: int, rows: Encoded, content: str) -> GlueModule:
    """The module of a fine-tuning, with its teacher where it has one."""
    task, stage, settings = config.task, config.finetune, config.distill
    models = {role: directory / "model" for role, directory in needed.items()}
    if "teacher" not in models:
        return GlueModule(build_classifier(config, models.get("pretrained")), task, stage, total, config.seed)
    teacher = load_teacher(config, models["teacher"])
    model: Any
    if settings.start == "teacher":
        model = convert(config, models["teacher"])
    else:
        model = build_classifier(config, models.get("pretrained"))
    if settings.head == "teacher":
        take_head(model, teacher)
    maps = settings.attention > 0
    if maps:  # only the eager path has them
        for one in (model, teacher):
            one.set_attn_implementation("eager")
    asked = Teacher(teacher, maps)
    if settings.cache:
        name, cache = needed["teacher"].name, Path(config.runs_dir) / ".cache"
        kept = CachedTeacher(asked, name, rows, f"{content} {stage.max_length}", cache)
        return StudentModule(model, kept, settings, task, stage, total, config.seed)
    return StudentModule(model, asked, settings, task, stage, total, config.seed)


def audit_batch(saved: Mapping[str, Any]) -> Batch:
    """The first rows of a finished run's measurement samples, from its recorded config."""
    config = typed(OmegaConf.create(dict(saved)))
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    if config.task.kind in ("pretrain", "general"):
        documents = encoded_documents(load_documents(config.source, cache), "train", tokenizer, cache)
        stage = config.stage
        kind = PretrainingBatches if config.task.kind == "pretrain" else SentenceBatches
        samples = kind(documents, tokenizer, config.seed, stage.batch, stage.max_length).fixed(AUDIT_ROWS)
    else:
        split = next(iter(config.task.splits))
        rows = load_rows(config.task, config.source).splits[split][:AUDIT_ROWS]
        samples = evaluation_batches(encode_rows(config.task, rows, tokenizer, config.finetune.max_length), AUDIT_ROWS)
    return _sample(samples)[0]


def announced(text: Text, console: Console) -> Text:
    for warning in text.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return text


def _sample(batches: Sequence[Batch]) -> list[Batch]:
    return [{name: batch[name] for name in INPUTS} for batch in batches]
