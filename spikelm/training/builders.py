"""What each kind of run is made of: pretraining, general distillation, fine-tuning; data to model to module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn

from spikelm.check import typed
from spikelm.data.batches import Batch, RowBatches, StepBatches, evaluation_batches
from spikelm.data.blocks import BlockBatches
from spikelm.data.cache import encoded_documents, encoded_rows
from spikelm.data.causal import CausalBatches
from spikelm.data.corpus import load_documents
from spikelm.data.encode import Encoded, encode_rows, with_unlabelled
from spikelm.data.pretraining import PretrainingBatches
from spikelm.data.sentences import SentenceBatches
from spikelm.data.sources import Text, load_rows
from spikelm.data.task_text import other_rows
from spikelm.data.tokenizer import load_tokenizer
from spikelm.identity import distills
from spikelm.measure.metrics import constant_predictor
from spikelm.measure.model import AUDIT_ROWS
from spikelm.models.bert import build_classifier, build_pretraining_model, load_pretraining
from spikelm.models.students import (
    build_student,
    convert,
    load_student,
    load_teacher,
    succeed,
    take_head,
    teacher_encoder,
)
from spikelm.schema import Config
from spikelm.training.causal import CausalModule
from spikelm.training.modules import INPUTS, GlueModule, PretrainModule, StageModule
from spikelm.training.optimization import total_steps
from spikelm.training.students import GeneralModule, ImitatingPretrainModule, StudentModule, Teacher
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
    if config.task.kind in ("pretrain", "general"):
        return _unlabelled(config, needed, console)
    if config.task.kind == "seq2seq":
        from spikelm.training.seq2seq_builder import seq2seq_stage

        return seq2seq_stage(config, needed, console)
    return _fine_tuning(config, needed, console)


def _unlabelled(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """Pretraining and general distillation: text without labels, evaluated on what is held out."""
    cache = Path(config.runs_dir) / ".cache"
    text = announced(load_documents(config.source, cache, config.stage.task_rows), console)
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    stage, pretraining = config.stage, config.task.kind == "pretrain"
    train = _text_batches(config, text, "train", tokenizer, stage.batch)
    held_out = _text_batches(config, text, "validation", tokenizer, EVALUATION_BATCH)
    total = total_steps(stage, train.steps_per_epoch)
    if pretraining:
        module: StageModule = _pretraining(config, needed, tokenizer.get_vocab_size(), total)
    else:
        folder = needed["teacher"] / "model" if "teacher" in needed else None
        student = build_student(config, folder, tokenizer.get_vocab_size())
        teacher = Teacher(teacher_encoder(config, folder))
        module = GeneralModule(student, teacher, config.distill, stage, total, config.seed)
    return Stage(
        module=module,
        train=train,
        evaluation=[held_out.fixed(HELD_OUT_ROWS)],
        samples=_sample(train.fixed(config.measure.samples)),
        evaluate_every=max(1, total // EVALUATIONS),
        source=text.record(config.source),
        constant={},
    )


def _text_batches(config: Config, text: Text, split: str, tokenizer: Tokenizer, batch: int) -> BlockBatches:
    """Batches of a split of unlabelled text, as the run's kind makes them."""
    documents = encoded_documents(text, split, tokenizer, Path(config.runs_dir) / ".cache")
    if config.task.kind == "pretrain":
        make = CausalBatches if config.backbone.kind == "rwkv" else PretrainingBatches
        return make(documents, tokenizer, config.seed, batch, config.stage.max_length)
    rows = text.task_rows if split == "train" else 0
    return SentenceBatches(documents, tokenizer, config.seed, batch, config.stage.max_length, task_rows=rows)


def _pretraining(config: Config, needed: Mapping[str, Path], vocab: int, total: int) -> StageModule:
    """From scratch, or from the plain pretrained model that is imitated as well."""
    if "teacher" not in needed:
        kind = CausalModule if config.backbone.kind == "rwkv" else PretrainModule
        return kind(build_pretraining_model(config, vocab), config.pretrain, total, config.seed)
    student, teacher = (load_pretraining(config, needed["teacher"] / "model", plain) for plain in (False, True))
    imitated = Teacher(teacher, dropout=config.distill.dropout)
    return ImitatingPretrainModule(student, imitated, config.pretrain, total, config.seed)


def _fine_tuning(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    task, stage = config.task, config.finetune
    text = announced(load_rows(task, config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    encoded = {split: encoded_rows(text, split, task, tokenizer, stage.max_length, cache) for split in text.splits}
    rows = encoded["train"]
    if distills(config) and config.distill.task_rows:
        others = other_rows(task, config.source, config.distill.task_rows)
        rows = with_unlabelled(rows, others, tokenizer, stage.max_length)
    train = RowBatches(rows, config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    first = next(iter(task.splits))
    regression = task.kind == "regression"
    constant: dict[str, float] = {}
    for split, suffix in task.splits.items():
        labels = torch.from_numpy(encoded[split].labels)
        found = constant_predictor(labels, task.metrics, max(1, len(task.labels)), regression)
        constant |= {f"{name}{suffix}": found[name] for name in task.metrics}
    return Stage(
        module=_fine_tuned(config, needed, total, encoded["train"], text.content_hash),
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
    known = load_student if settings.teacher == "previous" else load_teacher
    teacher = known(config, models["teacher"])
    model: Any
    if settings.start == "teacher":
        model = convert(config, models["teacher"])
    elif settings.start == "previous":
        model = succeed(config, models["pretrained"])
    else:
        model = build_classifier(config, models.get("pretrained"))
    if settings.head == "teacher":
        take_head(model, teacher)
    if not settings.imitates:  # a start is all it is asked for
        return GlueModule(model, task, stage, total, config.seed)
    maps = settings.attention > 0
    if maps:  # only the eager path has them, and a variant's own
        if settings.teacher == "ann":
            teacher.set_attn_implementation("eager")
        if config.variant.attention == "real":
            model.set_attn_implementation("eager")
    asked = Teacher(teacher, maps, settings.dropout, projections=bool(settings.scores or settings.relations))
    if settings.cache:
        name, cache = needed["teacher"].name, Path(config.runs_dir) / ".cache"
        kept = CachedTeacher(asked, name, rows, f"{content} {stage.max_length}", cache)
        return StudentModule(model, kept, settings, task, stage, total, config.seed)
    return StudentModule(model, asked, settings, task, stage, total, config.seed)


def audit_batch(saved: Mapping[str, Any]) -> Batch:
    """The first rows of a finished run's measurement samples, from its recorded config."""
    config = typed(OmegaConf.create(dict(saved)))
    if config.task.kind == "seq2seq":
        from spikelm.training.seq2seq_builder import audit_pairs

        return audit_pairs(config)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    if config.task.kind in ("pretrain", "general"):
        text = load_documents(config.source, cache, config.stage.task_rows)
        samples = _text_batches(config, text, "train", tokenizer, config.stage.batch).fixed(AUDIT_ROWS)
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
