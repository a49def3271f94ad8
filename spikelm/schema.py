"""The structured config: one dataclass tree, composed by Hydra and checked before anything heavy is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import II, MISSING

PACKAGE = Path(__file__).resolve().parent


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
    skip_broken: bool = False  # leave out TSV rows with too few or too many fields, as the hub does
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
    init: float = 0.02  # standard deviation of weights and word embeddings
    position_init: float = 0.02  # of position and segment embeddings
    kind: str = "bert"  # bert | bart | mbart | elmo | ptgen | bertsum | gpt2
    pairs: dict[str, str] = field(default_factory=dict)  # of a BERT: its encoder-decoder for tasks sum/ and mt/
    decoder_layers: int | None = None  # of bart and mbart; null: as many as `layers`
    own: dict[str, Any] = field(default_factory=dict)  # sizes and options that only its kind has (check_kinds.py)


@dataclass
class StageConfig:
    """Optimisation of one stage: pretraining, general distillation or fine-tuning."""

    steps: int | None = None
    epochs: int | None = None
    batch: int = 32
    lr: float = 2e-5
    schedule: str = "linear"  # linear | constant | inverse_sqrt
    warmup: float = 0.0  # below 1: share of the steps; else: steps
    schedule_stretch: float | None = None  # steps the schedule is made for, over those trained; null: 1
    schedule_speed: int | None = None  # steps of the schedule an update; null: 1
    weight_decay: float = 0.0
    clip: float | None = None  # gradient norm
    max_length: int = 128
    calibrate: int | None = None  # batches whose mean sets the spike amplitudes; null: the first, as in the paper
    follow: float | None = None  # share of the steps during which the amplitudes are set anew every tenth step
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
class DistillConfig:
    """What a spiking student learns from its plain teacher, the ANN fine-tuned on the same task; an ANN ignores it."""

    name: str = "none"
    start: str = "pretrained"  # pretrained | general | teacher: the weights that a student starts from
    general_T: int | None = None  # time steps of the general run to start from; null: the student's own
    head: str = "new"  # new | teacher: where pooler and classifier start
    labels: float = 1.0  # weight of the labels' own loss
    logits: float = 0.0  # KL at the temperature; squared error for regression
    hidden: float = 0.0  # squared error of the layers' outputs over the teacher's variance
    attention: float = 0.0  # squared error of the attention maps
    temperature: float = 1.0
    layers: str = "all"  # all | last | progressive: one more layer at a time over the first half of the steps
    cache: bool = False  # keep the teacher's outputs on disk (hidden states as float16)
    logits_loss: str = "kl"  # kl | mse, of pairs of texts
    scaled: bool = True  # hidden states: over the teacher's variance; false: the plain squared error
    noise: float = 0.0  # share of the tokens replaced in half of the rows, which then learn from the teacher alone

    @property
    def from_teacher(self) -> bool:
        """Whether a teacher is needed at all."""
        weights = self.logits or self.hidden or self.attention
        return bool(weights) or self.start == "teacher" or self.head == "teacher"


@dataclass
class HubText:
    """A repository of the hub with pretraining text in a column `text`."""

    repo: str = MISSING
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    rows: str = "articles"  # articles | sentences


@dataclass
class SourceConfig:
    """Where text comes from."""

    name: str = MISSING  # embedded | hub | local
    seed: int = 0
    documents: int = 4000  # of the pretraining text; an upper bound where it comes from files
    train_rows: int | None = None
    dev_rows: int | None = None
    glue: str | None = None  # hub: the repository of the tasks
    revision: str | None = None  # hub: of the tasks' repository
    text: list[HubText] | None = None  # hub: the repositories of the pretraining text
    mirror: str | None = None  # hub: a folder of repositories; null: the hub and its cache
    root: str | None = None  # local: the folder of the files
    text_root: str | None = None  # local: the folder of the pretraining text; null: root
    tokenizer: str | None = None  # a vocab.txt or its folder; null: trained on the local text, or the hub's


@dataclass
class MeasureConfig:
    """What the energy, firing rates and audit are measured on."""

    samples: int = 64
    length: int = 128


@dataclass
class TrainerConfig:
    """How it runs; only the precision can change a result."""

    accelerator: str = "auto"
    devices: int = 1  # processes that share each batch, one a device
    precision: str = "32-true"
    workers: int = 0
    threads: int | None = None  # of each process
    progress: bool = True
    log_every: int = 20
    checkpoint_every: int = 200


@dataclass
class TrackerConfig:
    """Weights & Biases."""

    mode: str = "offline"  # online | offline | disabled
    project: str = "spikelm"
    entity: str | None = None
    group: str | None = None


@dataclass
class Config:
    """One run: task, neuron, backbone, source and how to train and measure it."""

    task: TaskConfig = field(default_factory=TaskConfig)
    neuron: dict[str, Any] = field(default_factory=dict)
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
    def time_steps(self) -> int:
        """T for a spiking model, 1 for the ANN."""
        return int(self.neuron.get("T", 1))

    @property
    def spiking(self) -> bool:
        return bool(self.neuron.get("_target_"))
