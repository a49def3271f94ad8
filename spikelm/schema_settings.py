"""Parts of the structured config that say where text comes from, how a run is done, and how a model is altered."""

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
class VariantConfig:
    """What a low-bit system changes in the model beside neurons and weights (facts 2.4 to 2.8)."""

    attention: str = "real"  # real | quantized | boolean | rank1: spikelm/spiking/attention.py
    activation: str | None = None  # of the FFN; null: the backbone's own, which is also the teacher's
    pooler: bool = False  # quantise the pooler too
    width: float = 1.0  # share of the heads and of the FFN that is kept (DynaBERT)
