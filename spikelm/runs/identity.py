"""What makes a run that run: everything in its config that decides its result, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from spikelm.data import microworld
from spikelm.data.sources.content_hash import source_identity
from spikelm.catalog.kinds import kind_of
from spikelm.catalog.checkpoint_files import weights_identity
from spikelm.store.hashing import run_id
from spikelm.config.schema import BackboneConfig, Config, StageConfig, TaskConfig, VariantConfig, config_dir

#: fields of a task that say how to read it: what is read is in the hash of its content
READING = (
    *(
        "hub",
        "mini_steps",
        "paper_epochs",
        "bipft_epochs",
        "official_rows",
        "file_columns",
        "tsv_columns",
        "skip_broken",
        "files",
    ),
    *("repo", "revision", "folders", "paper"),
)
PAIRS = ("languages", "source_length", "target_length", "generate")  # of a task: left out where there are none
#: of a stage: left out where not set
OPTIONS = (
    *("calibrate", "follow", "schedule_stretch", "schedule_speed", "task_rows"),
    *("adam", "floor", "optimizer", "encoder_lr", "encoder_warmup"),
)
UNDISTILLED = ("name", "general_T", "pretrain")  # of `distill`: the others are in the identity of runs it needs
NOT_SIZE = ("name", "path", "pairs", "keep_layers")  # of a backbone
CLASSIFIERS = ("classification", "regression")  # kinds of task
UNLABELLED = ("pretrain", "general")
#: of a backbone: left out at these values
SEQ2SEQ: dict[str, Any] = {"kind": "bert", "decoder_layers": None, "transform_activation": None, "options": {}}
#: of `distill`: left out at these values, as in runs made before they were there
LATER = {
    **{"noise": 0.0, "logits_loss": "kl", "scaled": True, "scores": 0.0, "relations": 0.0, "embeddings": False},
    **{"total": False, "first": 0.0, "dropout": False, "teacher": "ann", "words": 0.0, "reduction": "mean"},
    **{"task_rows": 0, "frozen_embeddings": False},
}
FORMAT = 1  # raise when the same config no longer gives the same result


PLAIN = {"name": "ann"}  # conf/neuron/ann.yaml, the neuron of every teacher
UNQUANTIZED = {"name": "none"}  # conf/weights/none.yaml, its weights
SAID = ("name", "valid", "bits", "spikes")  # of a neuron or quantiser: told to the reader, not to its class


def _task(name: str) -> TaskConfig:
    loaded = OmegaConf.load(config_dir() / "task" / f"{name}.yaml")
    found: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), loaded))
    return found


def pretraining_of(config: Config) -> Config:
    """The config of the pretrained run that a fine-tuning starts from: same system, source and scale."""
    starts = kind_of(config.backbone).starts
    if starts and starts != config.backbone.kind:  # what BERTSUMABS is pretrained as has no decoder
        plain = replace(config.backbone, kind=starts, decoder_layers=None, options={})
        config = replace(config, backbone=plain, system="")
    return replace(config, task=_task("pretrain"), seed=config.pretrain.seed, select="last", force=False)


def general_of(config: Config) -> Config:
    """The config of the general distillation that a student starts from: same system, source text and scale."""
    neuron = {**config.neuron, "T": config.distill.general_T or config.time_steps}
    seed = config.general.seed
    return replace(
        config, task=_task("general_distill"), neuron=neuron, T=neuron["T"], seed=seed, select="last", force=False
    )


def teacher_of(config: Config) -> Config:
    """The config of a student's teacher: the plain model of the same task, or of the same pretraining."""
    stage = StageConfig(**asdict(config.teacher))
    altered: dict[str, Any] = {"weights": dict(UNQUANTIZED), "variant": VariantConfig()}
    plain = replace(config, neuron=dict(PLAIN), **altered, system="", finetune=stage, select="last", force=False)
    if kind_of(config.backbone).neuron == "spiking":  # without a plain form: taught by the BERT of its size
        plain.backbone = replace(config.backbone, kind="bert", options={})
    return pretraining_of(plain) if config.task.kind in UNLABELLED else replace(plain, seed=stage.seed)


def previous_of(config: Config) -> Config:
    """The config of the student that a student starts from: other neuron, weights or variant, from the teacher."""
    own = {"neuron": config.neuron, "weights": config.weights}
    changes: dict[str, Any] = {key: dict(config.previous.get(key, value)) for key, value in own.items()}
    changes["variant"] = VariantConfig(**config.previous.get("variant", asdict(config.variant)))
    changes["finetune"] = replace(config.finetune, **config.previous.get("finetune", {}))
    distill = replace(config.distill, start="teacher", teacher="ann")
    return replace(config, **changes, distill=distill, previous={}, system="", force=False)


def distills(config: Config) -> bool:
    """Whether the run is a fine-tuning whose `distill` says something; a plain model ignores it."""
    fine_tuning = config.task.kind not in UNLABELLED
    return config.converted and fine_tuning and (config.distill.from_teacher or config.distill.start != "pretrained")


def prerequisites(config: Config) -> dict[str, Config]:
    """The runs this one needs, by role: `pretrained` gives the weights to start from, `teacher` what to imitate."""
    kind, needed = config.task.kind, {}
    if kind == "pretrain":
        return {"teacher": teacher_of(config)} if config.converted and config.distill.pretrain else {}
    if kind == "general":
        return {} if config.backbone.path else {"teacher": teacher_of(config)}
    if distills(config) and config.distill.start == "general":
        needed["pretrained"] = general_of(config)
    elif distills(config) and config.distill.start == "previous":
        needed["pretrained"] = previous_of(config)
    elif (
        not config.backbone.path
        and (kind != "seq2seq" or kind_of(config.backbone).starts)
        and not (distills(config) and config.distill.start == "teacher")
    ):
        needed["pretrained"] = pretraining_of(config)
    if distills(config) and config.distill.from_teacher:
        imitated = previous_of if config.distill.teacher == "previous" else teacher_of
        needed["teacher"] = imitated(config)
    return needed


def identity(config: Config) -> dict[str, Any]:
    """The canonical content that is hashed; a run holds those it needs by id."""
    neuron = {key: value for key, value in config.neuron.items() if key not in SAID}
    kind = config.task.kind
    found: dict[str, Any] = {
        "format": _format(config),
        "task": {"name": config.task.name},
        "neuron": neuron,
        "source": _source(config),
        "seed": config.seed,
        "precision": config.trainer.precision,
        "measure": asdict(config.measure),
        **_altered(config),
    }
    if kind == "pretrain":
        if imitated := prerequisites(config).get("teacher"):
            found |= {"teacher": run_id(identity(imitated)), "distill": {"dropout": config.distill.dropout}}
        return {**found, "backbone": size_of(config.backbone), "stage": _stage(config.pretrain)}
    if kind == "seq2seq":  # trained from scratch, it has no pretrained run that would name the size
        found["backbone"] = size_of(config.backbone)
    needed = {role: run_id(identity(needed)) for role, needed in prerequisites(config).items()}
    if config.backbone.path:
        found["weights"] = weights_identity(config.backbone.path, Path(config.runs_dir) / ".cache")
        found["backbone"] = {name: getattr(config.backbone, name) for name in ("dropout", "attention_dropout")}
    if kind_of(config.backbone).options:  # more than what a pretrained run or the weights bring
        found["backbone"] = size_of(config.backbone)
    if kind == "general":
        if config.distill.reduction != "mean":
            found["reduction"] = config.distill.reduction
        return {**found, **needed, "stage": _stage(config.general)}
    if distills(config):
        settings = {key: value for key, value in asdict(config.distill).items() if key not in UNDISTILLED}
        found["distill"] = {key: value for key, value in settings.items() if value != LATER.get(key)}
    task = {key: value for key, value in asdict(config.task).items() if key not in READING}
    task = {key: value for key, value in task.items() if value or key not in PAIRS}
    return {**found, **needed, "task": task, "stage": _stage(config.finetune), "select": config.select}


def _altered(config: Config) -> dict[str, Any]:
    """Compiled kernels, quantised weights, what the variant changes and the layers kept: nothing of it in a run that
    has none.
    """
    found: dict[str, Any] = {}
    if config.trainer.compile == "model" or (config.trainer.compile == "neurons" and config.spiking):
        found["compile"] = config.trainer.compile
    if config.quantized:
        found["quantizer"] = {key: value for key, value in config.weights.items() if key not in SAID}
    default = asdict(VariantConfig())
    if variant := {key: value for key, value in asdict(config.variant).items() if value != default[key]}:
        found["variant"] = variant
    if config.task.kind != "pretrain" and config.backbone.keep_layers:
        found["keep_layers"] = config.backbone.keep_layers
    return found


def _format(config: Config) -> int:
    """FORMAT, or its successor where a run of FORMAT was made by mistake without dropout (a classifier's), or with
    its firing rates measured on the shortest sources (a spiking model of pairs).
    """
    if config.task.kind == "seq2seq" and config.fires:
        return FORMAT + 1
    general = distills(config) and config.distill.start == "general"
    dropout = config.backbone.dropout or config.backbone.attention_dropout
    return FORMAT + 1 if config.task.kind in CLASSIFIERS and dropout and not general else FORMAT


def size_of(backbone: BackboneConfig) -> dict[str, Any]:
    """What of a backbone decides a result; what came later is left out where it is not set."""
    size = {key: value for key, value in asdict(backbone).items() if key not in NOT_SIZE}
    return {key: value for key, value in size.items() if key not in SEQ2SEQ or value != SEQ2SEQ[key]}


def _source(config: Config) -> dict[str, Any]:
    general = config.task.kind == "general"
    task_rows = config.general.task_rows if general else config.distill.task_rows if distills(config) else 0
    if config.source.name != "embedded" or config.task.files:
        return source_identity(config.task, config.source, Path(config.runs_dir) / ".cache", task_rows)
    found = {key: value for key, value in asdict(config.source).items() if value is not None}
    if config.task.kind == "seq2seq":  # pairs are not made of documents
        del found["documents"]
        return {**found, "version": f"seq2seq/{microworld.SEQ2SEQ_VERSION}"}
    task = config.task.name.removeprefix("glue/")
    version = microworld.version_of(task)
    return {**found, "version": max(version, microworld.PAIRS_VERSION) if task_rows else version}


def _stage(stage: StageConfig) -> dict[str, Any]:
    """A stage without the seed of the run it starts from, which is that run's own, and without what is not used."""
    return _without_unset({key: value for key, value in asdict(stage).items() if key != "seed"}, OPTIONS)


def _without_unset(found: dict[str, Any], later: tuple[str, ...]) -> dict[str, Any]:
    """Without the keys that came `later` and are not set: a run made before they were there keeps its id."""
    return {key: value for key, value in found.items() if value is not None or key not in later}


def label(config: Config) -> str:
    """The readable part of a run's directory: neuron, T, k, backbone, scale, source, seed."""
    parts = [str(config.neuron["name"])]
    if kind_of(config.backbone).neuron == "spiking":
        parts.insert(0, config.backbone.kind)
    if config.spiking:
        parts.append(f"T{config.time_steps}")
    if "k" in config.neuron:
        parts.append(f"k{config.neuron['k']:g}")
    if config.quantized:
        parts.append(f"w{config.weights['name']}")
    return "-".join([*parts, config.backbone.name, config.scale, config.source.name, f"s{config.seed}"])
