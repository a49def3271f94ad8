"""The structured config: one dataclass tree, composed by Hydra and checked before anything heavy is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import II, MISSING, OmegaConf

from spikelm.catalog.kinds import UNLABELLED
from spikelm.config.schema_settings import (
    DistillConfig,
    HubText,
    MeasureConfig,
    SourceConfig,
    TrackerConfig,
    TrainerConfig,
    VariantConfig,
)

__all__ = [
    "PLAIN",
    "SAID",
    "UNQUANTIZED",
    "BackboneConfig",
    "Config",
    "DistillConfig",
    "HubText",
    "MeasureConfig",
    "SourceConfig",
    "StageConfig",
    "TaskConfig",
    "TeacherConfig",
    "TrackerConfig",
    "TrainerConfig",
    "VariantConfig",
    "config_dir",
    "default_runs_dir",
    "structured",
]

PLAIN = {"name": "ann"}  # conf/neuron/ann.yaml, the neuron of every teacher
UNQUANTIZED = {"name": "none"}  # conf/weights/none.yaml, its weights
SAID = ("name", "valid", "bits", "spikes")  # of a neuron or quantiser: told to the reader, not to its class
PACKAGE = Path(__file__).resolve().parents[1]


def config_dir() -> Path:
    """conf/ of the checkout, or the copy inside an installed wheel."""
    inside = PACKAGE / "conf"
    return inside if inside.is_dir() else PACKAGE.parent / "conf"


def default_runs_dir() -> str:
    """SPIKELM_RUNS, else runs/ of the checkout, else runs/ here: the same wherever the command is called from."""
    if named := os.environ.get("SPIKELM_RUNS"):
        return str(Path(named).expanduser().absolute())
    checkout = PACKAGE.parent
    return str((checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "runs")


def _paper() -> dict[str, Any]:
    """The paper's fine-tuning on GLUE; tasks with pairs of texts have settings of their own."""
    recipe = {"batch": 32, "lr": 2e-5, "schedule": "constant", "warmup": 0.0}
    return {**recipe, "source_length": 0, "target_length": 0, "generate": {}}


@dataclass
class TaskConfig:
    """What is learned: GLUE-like tasks differ in this alone."""

    name: str = MISSING
    kind: str = MISSING  # classification | regression | seq2seq | pretrain | general
    columns: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)  # the first one is the headline
    splits: dict[str, str] = field(default_factory=dict)  # evaluated split -> suffix of its metrics
    hub: str = ""  # configuration name in the hub's GLUE, or in `repo`
    official_rows: dict[str, int] = field(default_factory=dict)  # split -> rows of the published data
    file_columns: dict[str, str] = field(default_factory=dict)  # column -> its name in the official TSV, if another
    tsv_columns: list[str] = field(default_factory=list)  # of an official TSV without a header line
    files: str = ""  # the folder of its own labelled rows, which it has whatever the source (a plugin's task)
    skip_broken: bool = False  # leave out TSV rows with too few or too many fields, as the hub does
    mini_steps: int = 800  # of fine-tuning at scale mini
    paper_epochs: int = 0  # of SpikeLM's scripts
    bipft_epochs: int = 0  # of BiPFT's scripts, whose epochs the paper says it keeps (recipe=paper)
    # what follows is for seq2seq
    repo: str = ""  # the hub's repository of the task; empty: source.glue
    revision: str = ""  # of repo
    folders: list[str] = field(default_factory=list)  # other names that its folder of files may have
    languages: list[str] = field(default_factory=list)  # codes of source and target for a multilingual tokenizer
    source_length: int = 0  # most tokens of a source
    target_length: int = 0  # of a target
    generate: dict[str, Any] = field(default_factory=dict)  # beams, min_length, max_length, length_penalty
    paper: dict[str, Any] = field(default_factory=_paper)  # what scale=paper takes from the task


@dataclass
class BackboneConfig:
    """Architecture and size."""

    name: str = MISSING
    layers: int = MISSING
    hidden: int = MISSING
    heads: int = MISSING
    intermediate: int = MISSING
    positions: int = 512
    vocab: int = MISSING  # upper bound; the embedded tokenizer may need fewer pieces
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    transform_activation: str | None = None  # of the MLM head; null: the FFN's
    path: str | None = None  # pretrained weights to start from; null: a pretrained run of our own
    keep_layers: int | None = None  # fine-tune the first layers of the pretrained model only; null: all
    init: float = 0.02  # standard deviation of weights and word embeddings
    position_init: float = 0.02  # of position and segment embeddings
    kind: str = "bert"  # a name in kinds.py; auto: that of the weights
    options: dict[str, Any] = field(default_factory=dict)  # sizes and options that only its kind has (kinds.py)
    pairs: dict[str, str] = field(default_factory=dict)  # of a BERT: its encoder-decoder for tasks sum/ and mt/
    decoder_layers: int | None = None  # of bart and mbart; null: as many as `layers`


@dataclass
class StageConfig:
    """Optimisation of one stage: pretraining, general distillation or fine-tuning."""

    steps: int | None = None
    epochs: int | None = None
    batch: int = 32
    lr: float = 2e-5
    schedule: str = "linear"  # linear | constant | cosine | inverse_sqrt
    warmup: float = 0.0  # below 1: share of the steps; else: steps
    schedule_stretch: float | None = None  # steps the schedule is made for, over those trained; null: 1
    schedule_speed: int | None = None  # steps of the schedule an update; null: 1
    weight_decay: float = 0.0
    clip: float | None = None  # gradient norm
    adam: list[float] | None = None  # both betas and epsilon; null: torch's
    floor: float | None = None  # share of the rate that the schedule ends at; null: 0
    max_length: int = 128
    calibrate: int | None = None  # batches whose mean sets the spike amplitudes; null: the first, as in the paper
    follow: float | None = None  # share of the steps during which the amplitudes are set anew every tenth step
    task_rows: int | None = None  # of general: training rows of each GLUE task, without labels, beside the text
    optimizer: str | None = None  # adamw | adagrad; null: adamw
    encoder_lr: float | None = None  # of an encoder-decoder's encoder; null: lr
    encoder_warmup: float | None = None  # likewise; null: warmup
    seed: int = 42  # of the pretrained or general run that a fine-tuning needs


@dataclass
class TeacherConfig(StageConfig):
    """Fine-tuning of a student's teacher: like the student's where nothing else is said."""

    steps: int | None = II("finetune.steps")
    epochs: int | None = II("finetune.epochs")
    batch: int = II("finetune.batch")
    lr: float = II("finetune.lr")
    schedule: str = II("finetune.schedule")
    warmup: float = II("finetune.warmup")
    weight_decay: float = II("finetune.weight_decay")
    clip: float | None = II("finetune.clip")
    max_length: int = II("finetune.max_length")
    seed: int = II("seed")  # of the teacher's run


@dataclass
class Config:
    """One run: task, neuron, backbone, source and how to train and measure it."""

    task: TaskConfig = field(default_factory=TaskConfig)
    neuron: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=lambda: {"name": "none"})
    variant: VariantConfig = field(default_factory=VariantConfig)
    previous: dict[str, Any] = field(default_factory=dict)  # neuron, weights, variant, finetune of a student before
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    source: SourceConfig = field(default_factory=SourceConfig)
    pretrain: StageConfig = field(default_factory=StageConfig)
    general: StageConfig = field(default_factory=StageConfig)
    finetune: StageConfig = field(default_factory=StageConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    scale: str = "mini"
    recipe: str = ""  # paper | as_released, where the two disagree; empty: the scale's own
    system: str = ""
    k: float = 2.0
    T: int = 1
    seed: int = 42
    select: str = "last"  # last | best_dev | released
    force: bool = False
    dry_run: bool = False  # say what would be done, and stop
    runs_dir: str = field(default_factory=default_runs_dir)

    @property
    def stage(self) -> StageConfig:
        """The stage this run trains."""
        return {"pretrain": self.pretrain, "general": self.general}.get(self.task.kind, self.finetune)

    @property
    def depth(self) -> int:
        """Layers of the model that this run trains."""
        kept = None if self.task.kind == "pretrain" else self.backbone.keep_layers
        return kept or self.backbone.layers

    @property
    def time_steps(self) -> int:
        """T for a spiking model, 1 for the ANN."""
        return int(self.neuron.get("T", 1))

    @property
    def spiking(self) -> bool:
        """Whether there are neurons at the sites; those of a low-bit model round, but are no spikes (`fires`)."""
        return bool(self.neuron.get("_target_"))

    @property
    def fires(self) -> bool:
        """Whether the neurons are spikes, so that firing rates and the energy of additions mean something."""
        return self.spiking and bool(self.neuron.get("spikes", True))

    @property
    def quantized(self) -> bool:
        """Whether the weights have few bits."""
        return bool(self.weights.get("_target_"))

    @property
    def converted(self) -> bool:
        """Whether the model is anything but the plain one: a student, where there is a teacher."""
        return self.spiking or self.quantized

    @property
    def distills(self) -> bool:
        """Whether the run is a fine-tuning whose `distill` says something; a plain model ignores it."""
        fine_tuning = self.task.kind not in UNLABELLED
        return self.converted and fine_tuning and (self.distill.from_teacher or self.distill.start != "pretrained")

    @property
    def bits(self) -> dict[str, Any]:
        """Bits of weights and activations as table 4 counts them: a number, or ter; a spike of {0, 1} has one."""
        weights = self.weights.get("bits", 32) if self.quantized else 32
        return {"weights": weights, "activations": self.neuron.get("bits", 1) if self.spiking else 32}


@lru_cache(maxsize=1)
def structured(runs_dir: str) -> Any:
    """The schema as OmegaConf has it, made once for a default store; not to be changed: a merge starts from a copy."""
    return OmegaConf.structured(Config)
