"""The runs that a run needs first, as configs of their own: a pretrained model, a general one, a teacher, a student."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf

from spikelm.catalog.kinds import LM, UNLABELLED
from spikelm.config.paths import config_dir
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.convert import ConvertConfig
from spikelm.config.settings.running import TrainerConfig
from spikelm.config.settings.schema import Config, SystemConfig
from spikelm.config.settings.specs import AttentionSpec, NeuronSpec, NormSpec, QuantizerSpec
from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import TaskConfig, window_and_stride
from spikelm.errors import ConfigError


def prerequisites(config: Config) -> dict[str, Config]:
    """The runs this one needs, by role.

    `pretrained` and `converted` give the weights to start from, `teacher` what to imitate, or to convert.
    """
    if config.task.kind == "pretrain":
        imitates = config.converted and config.distill.pretrain
        return {"teacher": teacher_of(config)} if imitates and not config.backbone.path else {}
    needed: dict[str, Config] = {"converted": converted_of(config)} if config.starts_converted else {}
    if config.task.kind == "general":
        return needed if config.backbone.path else {**needed, "teacher": teacher_of(config)}
    if config.only_converts:
        return {"teacher": teacher_of(config)}
    if not config.starts_converted and (start := _start_of(config)):
        needed["pretrained"] = start
    if config.distills and config.distill.from_teacher:
        needed["teacher"] = previous_of(config) if config.distill.teacher.model == "previous" else teacher_of(config)
    return needed


def _start_of(config: Config) -> Config | None:
    """The run whose weights a fine-tuning starts from; none where they are its teacher's, a file's or random."""
    weights = config.distill.start.weights if config.distills else "pretrained"
    if weights == "general":
        return general_of(config)
    if weights == "previous":
        return previous_of(config)
    pretrains = config.pretrains and not config.skips_pretraining
    return pretraining_of(config) if pretrains and weights != "teacher" else None


def converted_of(config: Config) -> Config:
    """The conversion that a training starts from: the same neurons in the plain model of the same task."""
    convert = replace(config.convert, mode="only")
    return replace(config, convert=convert, previous=None, select="last", force=False)


def pretraining_of(config: Config) -> Config:
    """The pretrained run that a fine-tuning starts from: same system, source and scale."""
    starts = config.kind.starts
    if starts and starts != config.backbone.kind:  # what BERTSUMABS is pretrained as has no decoder
        plain = replace(config.backbone, kind=starts, decoder_layers=None, options={})
        config = replace(config, backbone=plain, system=SystemConfig())
    task, convert = _task("pretrain"), ConvertConfig()
    return replace(config, task=task, convert=convert, seed=config.pretrain.seed, select="last", force=False)


def general_of(config: Config) -> Config:
    """The general distillation that a student starts from: same system, source text and scale."""
    T = config.distill.start.general_T or config.time_steps
    task, seed = _task("general_distill"), config.general.seed
    return replace(config, task=task, T=T, seed=seed, select="last", force=False)


def teacher_of(config: Config) -> Config:
    """A student's teacher: the plain model of the same task, or of the same pretraining."""
    plain = replace(
        config,
        neuron=NeuronSpec(),
        weights=QuantizerSpec(),
        variant=VariantConfig(),
        attention=AttentionSpec(),
        norm=NormSpec(),
        convert=ConvertConfig(),
        system=SystemConfig(),
        finetune=_as_stage(config.teacher),
        trainer=_without_neurons(config.trainer),
        select="last",
        force=False,
    )
    if config.task.kind == LM:  # measured in the same windows, whatever its own stage reads at a time
        window, stride = window_and_stride(config.task, config.stage.max_length)
        plain.task = replace(config.task, window=window, stride=stride)
    if config.kind.neuron == "spiking":  # without a plain form: taught by the BERT of its size
        plain.backbone = replace(config.backbone, kind="bert", options={})
    return pretraining_of(plain) if config.task.kind in UNLABELLED else replace(plain, seed=config.teacher.seed)


def previous_of(config: Config) -> Config:
    """The student that a student starts from: some parts of its own, and itself made from the teacher."""
    before = config.previous
    if before is None:
        raise ConfigError("the config names no student before this one", "system=bit_multi")
    start = replace(config.distill.start, weights="teacher")
    asked = replace(config.distill.teacher, model="ann")
    return replace(
        config,
        neuron=before.neuron,
        weights=before.weights,
        variant=before.variant,
        attention=before.attention,
        norm=before.norm,
        finetune=before.finetune,
        distill=replace(config.distill, start=start, teacher=asked),
        previous=None,
        convert=ConvertConfig(),
        system=SystemConfig(),
        force=False,
    )


def _without_neurons(trainer: TrainerConfig) -> TrainerConfig:
    """Compiled neurons change nothing where there are none: students share one plain teacher."""
    return replace(trainer, compile="off") if trainer.compile == "neurons" else trainer


def _as_stage(stage: StageConfig) -> StageConfig:
    """The teacher's stage as the fine-tuning of its own run."""
    return StageConfig(**{name: getattr(stage, name) for name in StageConfig.__dataclass_fields__})


def _task(name: str) -> TaskConfig:
    loaded = OmegaConf.load(config_dir() / "task" / f"{name}.yaml")
    task: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), loaded))
    return task
