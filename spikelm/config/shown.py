"""A config as a person wants to see it: what the run will use, and nothing that does not apply to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spikelm.catalog.checkpoint_files import DROPOUT, pinned, read_dropout
from spikelm.catalog.kinds import LM, UNLABELLED
from spikelm.config.recorded import to_record
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.convert import ConvertConfig
from spikelm.config.settings.distill import DistillConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import ClassSpec

EMPTY: tuple[Any, ...] = (None, "", [], {})
STAGES = ("pretrain", "general", "finetune", "teacher")
OF_TEXT_PAIRS = ("languages", "source_length", "target_length", "generate")
OF_RUNNING_TEXT = ("window", "stride", "most_tokens", "detokenise")
DATA = ("splits", "official_rows", "file_columns", "options")  # mappings whose keys are no settings


def applicable(config: Config) -> dict[str, Any]:
    """The sections and keys that apply to the run; what is not set is left out."""
    record = to_record(config)
    record["neuron"] = _overridable(config.neuron) if config.spiking else {"name": config.neuron.name}
    record["weights"] = _overridable(config.weights) if config.quantized else {"name": config.weights.name}
    record |= {group: _overridable(spec) for group, spec in config.operators.items()}
    record["backbone"] |= _dropout(config)
    for section in _unused(config):
        del record[section]
    if not config.spiking:
        del record["T"]
    if not config.neuron.reads_k:
        del record["k"]
    if not config.reads_distill:
        record["distill"] = {"name": config.distill.name}
    if config.task.kind != "seq2seq":
        record["task"] = {key: value for key, value in record["task"].items() if key not in OF_TEXT_PAIRS}
    if config.task.kind != LM:
        record["task"] = {key: value for key, value in record["task"].items() if key not in OF_RUNNING_TEXT}
    record.get("finetune", {}).pop("seed", None)  # it is the seed of an earlier run that a stage names
    if not config.spiking:
        for stage in STAGES:
            record.get(stage, {}).pop("amplitudes", None)
    shown: dict[str, Any] = _set(record)
    return shown


def _overridable(spec: ClassSpec) -> dict[str, Any]:
    """A neuron, quantiser or operator as its YAML has it, without what only describes it."""
    return {key: value for key, value in spec.to_mapping().items() if key not in ("spikes", "bits")}


def _dropout(config: Config) -> dict[str, float | None]:
    """The dropout of a decoder: that of its given weights, and none where its kind has no such; others say their own.

    What weights of the hub bring is known when they are loaded.
    """
    if not config.kind.causal or config.backbone.kind not in DROPOUT:
        return {}
    path, kind = config.backbone.path, config.backbone.kind
    unknown = dict.fromkeys(("dropout", "attention_dropout"))
    if path:
        return unknown | ({} if pinned(path) else read_dropout(path, kind))
    return unknown | {key: getattr(config.backbone, key) for key in DROPOUT[kind]}


def _unused(config: Config) -> list[str]:
    """Sections that the run and the runs it needs do not read."""
    converts = config.convert.mode != "none"
    used = {
        "pretrain": config.pretrains and not config.skips_pretraining,
        "general": config.task.kind == "general" or (config.distills and config.distill.start.weights == "general"),
        "finetune": config.task.kind not in UNLABELLED,
        "teacher": (config.distills and config.distill.from_teacher)
        or (converts and config.task.kind not in UNLABELLED),
        "variant": config.variant != VariantConfig(),
        "attention": bool(config.attention),
        "norm": bool(config.norm),
        "convert": converts,
    }
    return [section for section, reads in used.items() if not reads]


def unread(config: Config, key: str) -> str:
    """Why a setting makes no difference to the run, so that its id stays the same; nothing where it makes one."""
    section = key.partition(".")[0]
    neurons = [config.neuron, *([config.previous.neuron] if config.previous else [])]
    if key in ("k", "neuron.k") and not any(neuron.reads_k for neuron in neurons):
        of_token = "with scale=token reads" if config.neuron.per_token else "has"
        return f"neuron={config.neuron.name} {of_token} no k"
    if key == "T" and not config.spiking:
        return f"neuron={config.neuron.name} is the plain model, which has no time steps"
    if section in STAGES and section in _unused(config):
        return f"the run has no stage {section}"
    if section == "convert" and config.convert.mode == "none" and config.convert != ConvertConfig():
        return "nothing is converted without convert=only or convert=first"
    if key == "convert.rotation_seed" and config.convert.rotation == "none":
        return "there is no rotation"
    if section == "distill" and not config.reads_distill and config.distill != DistillConfig():
        return "nothing is distilled here"
    return ""


def refused(config: Config, key: str) -> str:
    """Why a setting is not to be said here: it would make another run of the same result."""
    if key in ("convert.batches", "convert.batch") and config.convert.mode != "none" and not config.neuron.reads_data:
        return f"no data sets the heights of neuron={config.neuron.name}"
    return ""


def _set(node: Any) -> Any:
    """Without what is empty, at any depth."""
    if not isinstance(node, Mapping):
        return node
    inside = {key: value if key in DATA else _set(value) for key, value in node.items()}
    return {key: value for key, value in inside.items() if value not in EMPTY}
