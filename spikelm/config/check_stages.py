"""Checks of the stages of a config and of its distillation."""

from __future__ import annotations

from spikelm.catalog.kinds import kind_of
from spikelm.config.schema import Config, StageConfig, VariantConfig
from spikelm.errors import ConfigError

SHORTEST = 8  # tokens of a row: room for [CLS] a [SEP] b [SEP]


def check_stage(name: str, stage: StageConfig, config: Config) -> None:
    """A stage's steps, schedule and lengths, and whether its batch can be shared."""
    positions, devices = config.backbone.positions, config.trainer.devices
    if (stage.steps is None) == (stage.epochs is None):
        raise ConfigError(f"{name} needs either {name}.steps or {name}.epochs, not both and not neither")
    untrained = kind_of(config.backbone).untrained and name in ("finetune", "teacher") and stage.steps == 0
    if (stage.steps or stage.epochs or 0) < 1 and not untrained:
        raise ConfigError(f"{name}.steps and {name}.epochs are whole numbers of at least 1")
    if stage.calibrate is not None and stage.calibrate < 1:
        raise ConfigError(f"{name}.calibrate={stage.calibrate} is not valid; it is a number of batches, at least 1")
    if stage.follow is not None and not 0 <= stage.follow <= 1:
        raise ConfigError(f"{name}.follow={stage.follow} is not valid; it is a share of the steps from 0 to 1")
    if stage.task_rows is not None and (stage.task_rows < 1 or name != "general"):
        what = "it is a number of rows, at least 1" if name == "general" else "only general.task_rows is"
        raise ConfigError(f"{name}.task_rows={stage.task_rows} is not valid; {what}")
    for key in ("schedule_stretch", "schedule_speed"):
        if (value := getattr(stage, key)) is not None and not 1 <= value < float("inf"):
            raise ConfigError(f"{name}.{key}={value} is not valid; it is null or at least 1")
    if stage.adam is not None and not (len(stage.adam) == 3 and 0 <= max(stage.adam[:2]) < 1 and stage.adam[2] > 0):
        raise ConfigError(
            f"{name}.adam={list(stage.adam)} is not valid; it is two betas below 1 and an epsilon above 0"
        )
    if stage.adam is not None and stage.optimizer == "adagrad":
        raise ConfigError(f"{name}.adam is for {name}.optimizer=adamw, not for adagrad", f"{name}.adam=null")
    if stage.floor is not None and stage.schedule not in ("linear", "cosine"):
        raise ConfigError(f"{name}.floor is for a schedule that falls to its end, not for {stage.schedule}")
    if stage.floor is not None and not 0 <= stage.floor < 1:
        raise ConfigError(f"{name}.floor={stage.floor} is not valid; it is a share from 0 to below 1")
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
    if config.task.kind == "general" and not config.converted:
        raise ConfigError(
            "task=general_distill makes a spiking student; neuron=ann is its teacher", "choose another neuron"
        )
    if config.task.kind == "general" or (config.converted and config.distill.start == "general"):
        check_stage("general", config.general, config)
    if config.distill.cache and (config.distill.attention or config.distill.noise or config.distill.task_rows):
        raise ConfigError(
            "distill.cache keeps neither attention maps nor answers to noisy rows or to those of other tasks",
            "distill.cache=false, or distill.attention=0 distill.noise=0 distill.task_rows=0",
        )
    if config.task.kind == "seq2seq" and config.select == "released":
        raise ConfigError(f"select=released: no code was released for {config.task.name}", "select=last or best_dev")
    if config.task.kind == "seq2seq" and config.spiking:
        settings = config.distill
        unknown = {
            **{"cache": settings.cache, "noise": settings.noise, "start=general": settings.start == "general"},
            "task_rows": settings.task_rows,
            "frozen_embeddings": settings.frozen_embeddings,
        }
        unknown |= {"scores": settings.scores, "relations": settings.relations, "first": settings.first}
        unknown |= {"logits_loss=soft": settings.logits_loss == "soft", "embeddings": settings.embeddings}
        unknown |= {"words": settings.words, "reduction=rows": settings.reduction != "mean"}
        if names := [name for name, on in unknown.items() if on]:
            raise ConfigError(f"distill.{names[0]} is for tasks with labels, not for {config.task.name}")
    if config.distill.task_rows and not config.distill.imitates:
        raise ConfigError("distill.task_rows asks a teacher that nothing is learned from", "distill.logits=1")
    if not 0 <= config.distill.first < 1:
        raise ConfigError(f"distill.first={config.distill.first} is not valid; it is a share from 0 to below 1")
    if config.distill.cache and (config.distill.scores or config.distill.relations or config.distill.dropout):
        raise ConfigError(
            "distill.cache keeps hidden states and logits without dropout, not scores and relations",
            "distill.cache=false",
        )
    if config.distill.reduction == "rows" and (config.distill.scaled or config.distill.layers != "all"):
        raise ConfigError(
            "distill.reduction=rows is the sum of the plain squared errors of all layers",
            "distill.scaled=false distill.layers=all",
        )
    if not 0 <= config.distill.noise < 1:
        raise ConfigError(f"distill.noise={config.distill.noise} is not valid; it is a share from 0 to below 1")
    general_T = config.distill.general_T
    if general_T is not None and general_T < 1:
        raise ConfigError(f"distill.general_T={general_T} is not valid; it is a whole number of at least 1")


def check_altered(config: Config) -> None:
    """Whether the backbone and the neuron can have the variant."""
    variant, backbone = config.variant, config.backbone
    if not 0 < variant.width <= 1:
        raise ConfigError(f"variant.width={variant.width} is not valid; it is a share above 0 and up to 1")
    altered = [key for key, value in vars(variant).items() if value != getattr(VariantConfig(), key)]
    if altered and backbone.kind != "bert":
        raise ConfigError(f"variant.{altered[0]} is for a BERT; backbone={backbone.name} is a {backbone.kind}")
    if altered and not config.converted:
        raise ConfigError(
            f"variant.{altered[0]} changes a low-bit or spiking model; this one is plain", "choose a neuron or weights"
        )
    if variant.attention != "real" and not config.spiking:
        raise ConfigError(f"variant.attention={variant.attention} rounds the query: it needs a neuron", "neuron=sign")
    chained = config.distill.start == "previous" or config.distill.teacher == "previous"
    if chained and (config.task.kind == "seq2seq" or not config.previous):
        raise ConfigError(
            "distill.start=previous and distill.teacher=previous need a student before this one, on a task with labels",
            "system=bit_multi",
        )
    kept = backbone.keep_layers
    if kept is not None and not 1 <= kept <= backbone.layers:
        raise ConfigError(f"backbone.keep_layers={kept} is not valid; the backbone has {backbone.layers} layers")
