"""How one stage of a run is optimised: pretraining, general distillation, fine-tuning, and a teacher's fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omegaconf import II

from spikelm.config.settings.fields import LEFT_OUT, NO_RUN, setting
from spikelm.errors import ConfigError
from spikelm.rules import Rule

SHORTEST = 8  # tokens of a row: room for [CLS] a [SEP] b [SEP]
SCHEDULES = ("linear", "constant", "cosine", "inverse_sqrt")


@dataclass
class ScheduleConfig:
    """How the learning rate rises and falls."""

    shape: str = setting("linear", Rule(choices=SCHEDULES))
    warmup: float = setting(0.0, Rule(least=0))  # below 1: share of the steps; else: steps
    floor: float = setting(0.0, Rule(least=0, below=1))  # share of the rate that a falling schedule ends at
    stretch: float = setting(1.0, Rule(least=1))  # steps the schedule is made for, over the steps trained
    speed: int = setting(1, Rule(whole=True, least=1))  # steps of the schedule per update


@dataclass
class OptimizerConfig:
    """What turns gradients into updates."""

    name: str = setting("adamw", Rule(choices=("adamw", "adagrad")))
    weight_decay: float = setting(0.0, Rule(least=0))
    clip: float | None = setting(None, Rule(above=0, optional=True))  # of the gradient's norm
    betas: list[float] = setting([0.9, 0.999], Rule(least=0, below=1, many=True))
    epsilon: float = setting(1e-8, Rule(above=0))
    encoder_lr: float | None = setting(None, Rule(above=0, optional=True))  # of an encoder-decoder's encoder; null: lr
    encoder_warmup: float | None = setting(None, Rule(above=0, optional=True))  # likewise; null: schedule.warmup
    fused: bool = setting(False, counts_as={False: LEFT_OUT})  # AdamW in one pass over memory: faster, other roundings


@dataclass
class AmplitudeConfig:
    """How a stage sets the heights of elastic spikes."""

    calibrate: int = setting(1, Rule(whole=True, least=1))  # batches whose mean sets them; the paper takes the first
    follow: float = setting(0.0, Rule(least=0, most=1))  # share of the steps during which they are set every tenth step


@dataclass
class StageConfig:
    """Optimisation of one stage."""

    steps: int | None = setting(None, Rule(whole=True, least=0, optional=True))
    epochs: int | None = setting(None, Rule(whole=True, least=1, optional=True))
    batch: int = setting(32, Rule(whole=True, least=1))
    max_length: int = setting(128, Rule(whole=True, least=SHORTEST))  # tokens of a row
    lr: float = setting(2e-5, Rule(above=0))
    schedule: ScheduleConfig = setting(ScheduleConfig)
    optimizer: OptimizerConfig = setting(OptimizerConfig)
    amplitudes: AmplitudeConfig = setting(AmplitudeConfig)
    seed: int = setting(42, Rule(whole=True, least=0), decides=NO_RUN)  # of the earlier run that a fine-tuning needs


@dataclass
class GeneralConfig(StageConfig):
    """General distillation, on text and on rows of tasks without their labels."""

    task_rows: int = setting(0, Rule(whole=True, least=0))  # training rows of each GLUE task beside the text


@dataclass
class TeacherScheduleConfig(ScheduleConfig):
    """The schedule of a teacher, like its student's where nothing else is said."""

    shape: str = setting(II("finetune.schedule.shape"), Rule(choices=SCHEDULES))
    warmup: float = setting(II("finetune.schedule.warmup"), Rule(least=0))


@dataclass
class TeacherOptimizerConfig(OptimizerConfig):
    """The optimiser of a teacher, like its student's where nothing else is said."""

    weight_decay: float = setting(II("finetune.optimizer.weight_decay"), Rule(least=0))
    clip: float | None = setting(II("finetune.optimizer.clip"), Rule(above=0, optional=True))
    fused: bool = setting(II("finetune.optimizer.fused"), counts_as={False: LEFT_OUT})


@dataclass
class TeacherConfig(StageConfig):
    """Fine-tuning of a student's teacher: like the student's where nothing else is said."""

    steps: int | None = setting(II("finetune.steps"), Rule(whole=True, least=0, optional=True))
    epochs: int | None = setting(II("finetune.epochs"), Rule(whole=True, least=1, optional=True))
    batch: int = setting(II("finetune.batch"), Rule(whole=True, least=1))
    max_length: int = setting(II("finetune.max_length"), Rule(whole=True, least=SHORTEST))
    lr: float = setting(II("finetune.lr"), Rule(above=0))
    schedule: TeacherScheduleConfig = setting(TeacherScheduleConfig)
    optimizer: TeacherOptimizerConfig = setting(TeacherOptimizerConfig)
    seed: int = setting(II("seed"), Rule(whole=True, least=0), decides=NO_RUN)  # of the teacher's run


def check_stage(name: str, stage: StageConfig, config: Any) -> None:
    """What the rules of single fields cannot say: which of them go together, and with the rest of the config."""
    may_have_no_steps = config.kind.untrained and name in ("finetune", "teacher")
    if (stage.steps is None) == (stage.epochs is None):
        raise ConfigError(f"{name} needs either {name}.steps or {name}.epochs, not both and not neither")
    if stage.steps == 0 and not may_have_no_steps:
        raise ConfigError(f"{name}.steps=0 is not valid; it is a whole number of at least 1")
    optimizer, schedule = stage.optimizer, stage.schedule
    if len(optimizer.betas) != 2:
        raise ConfigError(f"{name}.optimizer.betas={list(optimizer.betas)} is not valid; they are two numbers")
    if schedule.floor and schedule.shape not in ("linear", "cosine"):
        raise ConfigError(f"{name}.schedule.floor is for a schedule that falls to its end, not for {schedule.shape}")
    if optimizer.fused and optimizer.name != "adamw":
        raise ConfigError(f"{name}.optimizer.fused is for adamw, not for {optimizer.name}")
    for key in ("encoder_lr", "encoder_warmup"):
        if getattr(optimizer, key) and config.task.kind != "seq2seq":
            raise ConfigError(f"{name}.optimizer.{key} is for encoder-decoders, not for task={config.task.name}")
    if stage.batch < (config.trainer.devices or 1):
        raise ConfigError(f"{name}.batch={stage.batch} cannot be shared by trainer.devices={config.trainer.devices}")
    positions = config.backbone.positions
    if stage.max_length > positions:
        raise ConfigError(
            f"{name}.max_length={stage.max_length} is longer than backbone.positions={positions}",
            f"{name}.max_length={positions}, or a backbone with more positions",
        )
