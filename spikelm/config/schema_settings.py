"""Parts of the structured config that say where text comes from, how a run is done, how a model is altered and what it
learns from a teacher."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING


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
    """How it runs; only the precision and `compile` can change a result, in its last digits."""

    accelerator: str = "auto"
    devices: int = 1  # processes that share each batch, one a device
    strategy: str = "ddp"  # of several devices: ddp | fsdp: parameters and optimiser states in shards
    precision: str = "32-true"
    workers: int = 0
    threads: int | None = None  # of each process
    keep_heap: bool = False  # freed memory stays with the process (glibc): see spikelm/machine/cpu.py
    progress: bool = True
    log_every: int = 20
    checkpoint_every: int = 200
    compile: str = "off"  # off | neurons: their kernels | model: the blocks of a BERT, neurons inside (docs/speed.md)
    activation_checkpointing: bool = False  # compute each block again in the backward: less memory, same result


@dataclass
class TrackerConfig:
    """Weights & Biases."""

    mode: str = "offline"  # online | offline | disabled
    project: str = "spikelm"
    entity: str | None = None
    group: str | None = None


@dataclass
class VariantConfig:
    """What a low-bit system changes in the model beside neurons and weights (facts 2.4 to 2.8)."""

    attention: str = "real"  # real | quantized | boolean | rank1: spikelm/spiking/lowbit_attention.py
    activation: str | None = None  # of the FFN; null: the backbone's own, which is also the teacher's
    pooler: bool = False  # quantise the pooler too
    width: float = 1.0  # share of the heads and of the FFN that is kept (DynaBERT)


@dataclass
class DistillConfig:
    """What a spiking student learns from its plain teacher, the ANN fine-tuned on the same task; an ANN ignores it."""

    name: str = "none"
    start: str = "pretrained"  # pretrained | general | teacher | previous: the weights that a student starts from
    teacher: str = "ann"  # ann | previous: who is imitated
    general_T: int | None = None  # time steps of the general run to start from; null: the student's own
    head: str = "new"  # new | teacher: where pooler and classifier start
    labels: float = 1.0  # weight of the labels' own loss
    logits: float = 0.0  # KL at the temperature; squared error for regression
    hidden: float = 0.0  # squared error of the layers' outputs over the teacher's variance
    attention: float = 0.0  # squared error of the attention maps
    temperature: float = 1.0
    layers: str = "all"  # all | last | progressive: one more layer at a time over the first half of the steps
    cache: bool = False  # keep the teacher's outputs on disk (hidden states as float16)
    logits_loss: str = "kl"  # kl | mse (pairs of texts) | soft: cross entropy, mean over rows and classes
    scaled: bool = True  # hidden states: over the teacher's variance; false: the plain squared error
    words: float = 0.0  # squared error of the two models' word embeddings
    reduction: str = "mean"  # mean over the layers | rows: their sum over the rows of a batch (SpikeBERT)
    noise: float = 0.0  # share of the tokens replaced in half of the rows, which then learn from the teacher alone
    task_rows: int = 0  # training rows of each other task alike that the teacher is asked about, too
    frozen_embeddings: bool = False  # as in the general stage: what imitates has the same ones as its teacher's start
    scores: float = 0.0  # squared error of the attention scores before the softmax
    relations: float = 0.0  # direction-matching distance of the queries', keys' and values' similarities (DMD)
    embeddings: bool = False  # hidden states: the embeddings' output too
    total: bool = False  # hidden states and scores: the sum over the layers; false: their mean
    first: float = 0.0  # share of the steps that learn from the layers alone, before those that learn from logits alone
    dropout: bool = False  # the teacher keeps its dropout
    pretrain: bool = False  # pretraining starts from the plain pretrained model and imitates it (BiPFT)

    @property
    def from_teacher(self) -> bool:
        """Whether a teacher is needed at all."""
        return self.imitates or self.start == "teacher" or self.head == "teacher"

    @property
    def imitates(self) -> bool:
        """Whether something is learned from the teacher's answers."""
        return bool(self.logits or self.hidden or self.attention or self.scores or self.relations or self.words)
