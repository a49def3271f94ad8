"""What makes a run that run: everything in its config that decides its result, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from spikelm.data import microworld
from spikelm.data.fingerprint import source_identity
from spikelm.models.weights import weights_identity
from spikelm.records import run_id
from spikelm.schema import Config, StageConfig, TaskConfig, config_dir

#: fields of a task that say how to read it: what is read is in the hash of its content
READING = ("hub", "paper_epochs", "bipft_epochs", "official_rows", "file_columns", "tsv_columns", "skip_broken")
FORMAT = 1  # raise when the same config no longer gives the same result


def pretraining_of(config: Config) -> Config:
    """The config of the pretrained run that a fine-tuning starts from: same system, source and scale."""
    loaded = OmegaConf.load(config_dir() / "task" / "pretrain.yaml")
    task: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), loaded))
    return replace(config, task=task, seed=config.pretrain.seed, select="last", force=False)


def identity(config: Config) -> dict[str, Any]:
    """The canonical content that is hashed; a fine-tuning holds its pretrained run by id."""
    neuron = {key: value for key, value in config.neuron.items() if key not in ("name", "valid")}
    source = {key: value for key, value in asdict(config.source).items() if value is not None}
    if config.source.name == "embedded":
        source["version"] = microworld.VERSION
    elif config.source.name == "local":
        source = source_identity(config.task, config.source, Path(config.runs_dir) / ".cache")
    found: dict[str, Any] = {
        "format": FORMAT,
        "task": {"name": config.task.name},
        "neuron": neuron,
        "source": source,
        "seed": config.seed,
        "precision": config.trainer.precision,
        "measure": asdict(config.measure),
    }
    if config.task.kind == "pretrain":
        size = {key: value for key, value in asdict(config.backbone).items() if key not in ("name", "path")}
        size = _without_unset(size, ("transform_activation",))
        return {**found, "backbone": size, "stage": _stage(config.pretrain)}
    task = {key: value for key, value in asdict(config.task).items() if key not in READING}
    found |= {"task": task, "stage": _stage(config.finetune), "select": config.select}
    if config.backbone.path:
        kept = {name: getattr(config.backbone, name) for name in ("dropout", "attention_dropout")}
        weights = weights_identity(config.backbone.path, Path(config.runs_dir) / ".cache")
        return {**found, "weights": weights, "backbone": kept}
    return {**found, "pretrained": run_id(identity(pretraining_of(config)))}


def needs_pretraining(config: Config) -> bool:
    """Whether the run starts from a pretrained run of the store, and not from scratch or from given weights."""
    return config.task.kind != "pretrain" and not config.backbone.path


def _stage(stage: StageConfig) -> dict[str, Any]:
    """A stage without the seed of the pretrained run, which is that run's own."""
    found = {key: value for key, value in asdict(stage).items() if key != "seed"}
    return _without_unset(found, ("schedule_stretch", "schedule_speed"))


def _without_unset(found: dict[str, Any], later: tuple[str, ...]) -> dict[str, Any]:
    """Without the keys that came `later` and are not set: a run made before they were there keeps its id."""
    return {key: value for key, value in found.items() if value is not None or key not in later}


def label(config: Config) -> str:
    """The readable part of a run's directory: neuron, T, k, backbone, scale, source, seed."""
    parts = [str(config.neuron["name"])]
    if config.spiking:
        parts.append(f"T{config.time_steps}")
    if "k" in config.neuron:
        parts.append(f"k{config.neuron['k']:g}")
    return "-".join([*parts, config.backbone.name, config.scale, config.source.name, f"s{config.seed}"])
