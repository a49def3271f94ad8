"""Checks of the stages of a config and of its distillation."""

from __future__ import annotations

from spikelm.errors import ConfigError
from spikelm.schema import Config, StageConfig

SHORTEST = 8  # tokens of a row: room for [CLS] a [SEP] b [SEP]


def check_stage(name: str, stage: StageConfig, config: Config) -> None:
    """A stage's steps, schedule and lengths, and whether its batch can be shared."""
    positions, devices = config.backbone.positions, config.trainer.devices
    if (stage.steps is None) == (stage.epochs is None):
        raise ConfigError(f"{name} needs either {name}.steps or {name}.epochs, not both and not neither")
    untrained = config.backbone.kind == "gpt2" and name in ("finetune", "teacher") and stage.steps == 0
    if (stage.steps or stage.epochs or 0) < 1 and not untrained:
        raise ConfigError(f"{name}.steps and {name}.epochs are whole numbers of at least 1")
    if stage.calibrate is not None and stage.calibrate < 1:
        raise ConfigError(f"{name}.calibrate={stage.calibrate} is not valid; it is a number of batches, at least 1")
    if stage.follow is not None and not 0 <= stage.follow <= 1:
        raise ConfigError(f"{name}.follow={stage.follow} is not valid; it is a share of the steps from 0 to 1")
    for key in ("schedule_stretch", "schedule_speed"):
        if (value := getattr(stage, key)) is not None and not 1 <= value < float("inf"):
            raise ConfigError(f"{name}.{key}={value} is not valid; it is null or at least 1")
    for key in ("encoder_lr", "encoder_warmup"):
        if (value := getattr(stage, key)) is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name}.{key}={value} is not valid; it is null or a number above 0")
    if stage.encoder_lr and config.task.kind != "seq2seq":
        raise ConfigError(f"{name}.encoder_lr is for encoder-decoders, not for task={config.task.name}")
    if stage.batch < devices:
        raise ConfigError(f"{name}.batch={stage.batch} cannot be shared by trainer.devices={devices}")
    if stage.max_length < SHORTEST:
        raise ConfigError(f"{name}.max_length={stage.max_length} is not valid; it is at least {SHORTEST} tokens")
    if stage.max_length > positions:
        raise ConfigError(f"{name}.max_length={stage.max_length} is longer than backbone.positions={positions}")


def check_distill(config: Config) -> None:
    """What a student learns from, and whether its task can give it."""
    if config.task.kind == "general" and not config.spiking:
        raise ConfigError(
            "task=general_distill makes a spiking student; neuron=ann is its teacher", "choose another neuron"
        )
    if config.task.kind == "general" or (config.spiking and config.distill.start == "general"):
        check_stage("general", config.general, config)
    if config.distill.cache and (config.distill.attention or config.distill.noise):
        raise ConfigError(
            "distill.cache keeps neither attention maps nor answers to noisy rows",
            "distill.cache=false, or distill.attention=0 distill.noise=0",
        )
    if config.task.kind == "seq2seq" and config.spiking:
        settings = config.distill
        unknown = {"cache": settings.cache, "noise": settings.noise, "start=general": settings.start == "general"}
        if names := [name for name, on in unknown.items() if on]:
            raise ConfigError(f"distill.{names[0]} is for tasks with labels, not for {config.task.name}")
    if not 0 <= config.distill.noise < 1:
        raise ConfigError(f"distill.noise={config.distill.noise} is not valid; it is a share from 0 to below 1")
    general_T = config.distill.general_T
    if general_T is not None and general_T < 1:
        raise ConfigError(f"distill.general_T={general_T} is not valid; it is a whole number of at least 1")
