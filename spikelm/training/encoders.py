"""The stages of encoders, BERT and those of its sizes: pretraining, general distillation, fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from rich.console import Console
from tokenizers import Tokenizer

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.kinds import Kind, kind_of
from spikelm.config.settings.schema import Config
from spikelm.data.batches.masked_blocks import MaskedBatches
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.data.tokens.encode import EncodedRows
from spikelm.models.architecture import Architecture
from spikelm.models.bert import build_classifier, build_pretraining_model, load_pretraining
from spikelm.models.teachers import (
    build_encoder_student,
    load_converted,
    load_encoder_teacher,
    load_previous,
    load_teacher,
    student_from_previous,
    student_from_teacher,
    take_head,
)
from spikelm.training.distill.students import GeneralModule, ImitatingPretrainModule, StudentModule, Teacher
from spikelm.training.distill.teacher_cache import CachedTeacher
from spikelm.training.modules import GlueModule, MaskedModule, PretrainModule, StageModule
from spikelm.training.stage import Stage, cache_of, fine_tuning_stage, unlabelled_stage, without_dropout


def architecture(kind: Kind) -> Architecture:
    """An encoder of transformers, by what the names of its classes begin with."""
    name, heads = kind.transformers, "PreTraining" if kind.next_sentence else "MaskedLM"
    return Architecture(
        config=getattr(transformers, f"{name}Config"),
        encoder=getattr(transformers, f"{name}Model"),
        pretrainer=getattr(transformers, f"{name}For{heads}"),
        classifier=getattr(transformers, f"{name}ForSequenceClassification"),
        batches=PretrainingBatches if kind.next_sentence else MaskedBatches,
        pretraining=pretraining,
        general=general,
        fine_tuning=fine_tuning,
    )


def pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """From scratch, or from the plain pretrained model (a run's, or the public weights) that is imitated as well."""

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        training = (config.pretrain, total, config.seed)
        if "teacher" not in needed and not config.backbone.path:
            make = PretrainModule if kind_of(config.backbone).next_sentence else MaskedModule
            return make(build_pretraining_model(config, tokenizer.get_vocab_size()), *training)
        folder = needed["teacher"] / "model" if "teacher" in needed else backbone_folder(config.backbone)
        student, teacher = (load_pretraining(config, folder, plain) for plain in (False, True))
        return ImitatingPretrainModule(student, Teacher(teacher, dropout=config.distill.teacher.dropout), *training)

    return unlabelled_stage(config, console, module)


def general(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A student of the plain pretrained model, on text without labels."""
    folder = needed["teacher"] / "model" if "teacher" in needed else None

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        if "converted" in needed:
            student = load_converted(config, needed["converted"] / "model")
        else:
            student = build_encoder_student(config, folder, tokenizer.get_vocab_size())
        teacher = Teacher(load_encoder_teacher(config, folder))
        return GeneralModule(student, teacher, config.distill, config.stage, total, config.seed)

    stage = unlabelled_stage(config, console, module)
    stage.plain = partial(load_encoder_teacher, config, folder)
    return stage


def fine_tuning(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A task with labels, from the pretrained run, with a teacher where there is one."""
    stage = fine_tuning_stage(config, console, partial(_classifier_module, config, needed))
    if config.only_converts:
        stage.plain = partial(load_teacher, config, needed["teacher"] / "model")
    return stage


def _classifier_module(
    config: Config, needed: Mapping[str, Path], total: int, rows: EncodedRows, content: str
) -> GlueModule:
    """The module of a fine-tuning: a classifier alone, or a student with its teacher."""
    settings, training = config.distill, (config.task, config.stage, total, config.seed)
    models = {role: directory / "model" for role, directory in needed.items()}
    if config.only_converts:
        return GlueModule(student_from_teacher(config, models["teacher"]), *training)
    if "teacher" not in models:
        converted = models.get("converted")
        start = load_previous(config, converted) if converted else build_classifier(config, models.get("pretrained"))
        return GlueModule(start, *training)
    teacher = (load_previous if settings.teacher.model == "previous" else load_teacher)(config, models["teacher"])
    model = _student(config, models)
    if settings.start.head == "teacher":
        take_head(model, teacher)
    if settings.start.frozen_embeddings:
        model.base_model.embeddings.requires_grad_(False)
    if not settings.imitates:  # a start is all it is asked for
        return GlueModule(model, *training)
    asked: Any = _asked(config, model, teacher)
    if settings.teacher.cache:
        described = f"{content} {config.finetune.max_length}"
        asked = CachedTeacher(asked, needed["teacher"].name, rows, described, cache_of(config))
    return StudentModule(model, asked, settings, *training)


def _student(config: Config, models: Mapping[str, Path]) -> Any:
    """The student with the weights of its conversion, or those that `distill.start.weights` asks for."""
    start = config.distill.start.weights
    from_general = start == "general" and "converted" not in models  # which has no dropout either
    if from_general or not config.distill.start.dropout:
        config = without_dropout(config)
    if "converted" in models:
        return load_previous(config, models["converted"])
    if start == "teacher":
        return student_from_teacher(config, models["teacher"])
    if start == "previous":
        return student_from_previous(config, models["pretrained"])
    return build_classifier(config, models.get("pretrained"))


def _asked(config: Config, model: Any, teacher: Any) -> Teacher:
    """The teacher that answers during training, with all that the losses look at."""
    settings = config.distill
    maps = settings.losses.attention > 0
    if maps:  # only the eager path has them, and that of variants and operators
        if settings.teacher.model == "ann":
            teacher.set_attn_implementation("eager")
        if config.variant.attention == "real" and not config.attention:
            model.set_attn_implementation("eager")
    return Teacher(
        teacher, maps, settings.teacher.dropout, projections=bool(settings.losses.scores or settings.losses.relations)
    )
