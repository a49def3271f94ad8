"""The stages of encoders, BERT and those of its sizes: pretraining, general distillation, fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from tokenizers import Tokenizer

from spikelm.config.schema import Config
from spikelm.data.tokens.encode import EncodedRows
from spikelm.models.bert import build_classifier, build_pretraining_model, load_pretraining
from spikelm.models.teachers import (
    build_student,
    convert,
    load_student,
    load_teacher,
    succeed,
    take_head,
    teacher_encoder,
)
from spikelm.training.distill.students import GeneralModule, ImitatingPretrainModule, StudentModule, Teacher
from spikelm.training.distill.teacher_cache import CachedTeacher
from spikelm.training.modules import GlueModule, PretrainModule, StageModule
from spikelm.training.stage import Stage, fine_tuning_stage, unlabelled_stage


def pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """From scratch, or from the plain pretrained model that is imitated as well."""

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        last = (config.pretrain, total, config.seed)
        if "teacher" not in needed:
            return PretrainModule(build_pretraining_model(config, tokenizer.get_vocab_size()), *last)
        student, teacher = (load_pretraining(config, needed["teacher"] / "model", plain) for plain in (False, True))
        return ImitatingPretrainModule(student, Teacher(teacher, dropout=config.distill.teacher.dropout), *last)

    return unlabelled_stage(config, console, module)


def general(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A student of the plain pretrained model, on text without labels."""
    folder = needed["teacher"] / "model" if "teacher" in needed else None

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        student = build_student(config, folder, tokenizer.get_vocab_size())
        teacher = Teacher(teacher_encoder(config, folder))
        return GeneralModule(student, teacher, config.distill, config.general, total, config.seed)

    return unlabelled_stage(config, console, module)


def fine_tuning(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A task with labels, from the pretrained run, with a teacher where there is one."""
    return fine_tuning_stage(config, console, partial(_fine_tuned, config, needed))


def _fine_tuned(config: Config, needed: Mapping[str, Path], total: int, rows: EncodedRows, content: str) -> GlueModule:
    """The module of a fine-tuning, with its teacher where it has one."""
    task, stage, settings = config.task, config.finetune, config.distill
    models = {role: directory / "model" for role, directory in needed.items()}
    if "teacher" not in models:
        return GlueModule(build_classifier(config, models.get("pretrained")), task, stage, total, config.seed)
    known = load_student if settings.teacher.model == "previous" else load_teacher
    teacher = known(config, models["teacher"])
    if settings.start.weights == "general":  # which has no dropout either, as what is imitated has none
        config = replace(config, backbone=replace(config.backbone, dropout=0.0, attention_dropout=0.0))
    model: Any
    if settings.start.weights == "teacher":
        model = convert(config, models["teacher"])
    elif settings.start.weights == "previous":
        model = succeed(config, models["pretrained"])
    else:
        model = build_classifier(config, models.get("pretrained"))
    if settings.start.head == "teacher":
        take_head(model, teacher)
    if settings.start.frozen_embeddings:
        model.bert.embeddings.requires_grad_(False)
    if not settings.imitates:  # a start is all it is asked for
        return GlueModule(model, task, stage, total, config.seed)
    maps = settings.losses.attention > 0
    if maps:  # only the eager path has them, and a variant's own
        if settings.teacher.model == "ann":
            teacher.set_attn_implementation("eager")
        if config.variant.attention == "real":
            model.set_attn_implementation("eager")
    asked = Teacher(
        teacher, maps, settings.teacher.dropout, projections=bool(settings.losses.scores or settings.losses.relations)
    )
    if settings.teacher.cache:
        name, cache = needed["teacher"].name, Path(config.runs_dir) / ".cache"
        kept = CachedTeacher(asked, name, rows, f"{content} {stage.max_length}", cache)
        return StudentModule(model, kept, settings, task, stage, total, config.seed)
    return StudentModule(model, asked, settings, task, stage, total, config.seed)
