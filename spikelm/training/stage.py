"""What every kind of run is made of: text to batches to a module, and what is measured on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn

from spikelm.catalog.kinds import LABELLED, LM
from spikelm.config.settings.schema import Config
from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import Batch, RowBatches, StepBatches, evaluation_batches
from spikelm.data.batches.sentences import SentenceBatches
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.unlabelled_rows import other_rows
from spikelm.data.tokens.cache import encoded_documents, encoded_rows
from spikelm.data.tokens.encode import EncodedRows, with_unlabelled
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.errors import ConfigError
from spikelm.measure.metrics import constant_predictor
from spikelm.measure.trained_model import Measured
from spikelm.models.architecture import architecture_of
from spikelm.store.file_facts import weights_record, weights_warning
from spikelm.training.modules import INPUTS, GlueModule, StageModule
from spikelm.training.optimization import total_steps

EVALUATION_BATCH = 128
EVALUATIONS = 10  # at most, of pretraining and general distillation
HELD_OUT_ROWS = 512  # pairs or sentences that pretraining and general distillation are evaluated on
#: kind of task -> the function of an Architecture that builds its stage
BUILDERS = {
    "pretrain": "pretraining",
    "general": "general",
    "seq2seq": "text_pairs",
    LM: "language_modelling",
    **dict.fromkeys(LABELLED, "fine_tuning"),
}


@dataclass
class Texts:
    """What a result says of generated texts: some of them, and how their scores were computed."""

    samples: list[dict[str, str]]
    metric_notes: dict[str, str]


@dataclass
class Stage:
    """All that a fit needs, and what its result says about the data."""

    module: StageModule
    train: StepBatches
    evaluation: list[list[Batch]]
    samples: list[Batch]  # what firing rates, energy and audit are measured on
    evaluate_every: int
    source: dict[str, Any]
    constant: dict[str, float] = field(default_factory=dict)  # scores of a constant predictor
    measure: Callable[[nn.Module, list[Batch]], Measured] | None = None  # where it is not the encoder's
    texts: Callable[[], Texts] | None = None  # where texts are generated
    weights: dict[str, str] | None = None  # the published weights it started from
    plain: Callable[[], nn.Module] | None = None  # loads the plain model that a conversion is made of
    save_beside: Callable[[Path], None] | None = None  # puts what the model cannot be used without into its folder


def build_stage(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """The stage of a config; `needed` are the directories of its prerequisites by role."""
    size = config.backbone
    build = getattr(architecture_of(size), BUILDERS[config.task.kind])
    if build is None:
        raise ConfigError(f"this task needs a BERT; backbone={size.name} is a {size.kind}", "backbone=bert_mini")
    stage: Stage = build(config, needed, console)
    if size.path:
        stage.weights = weights_record(size.path, cache_of(config))
        if warning := weights_warning(size.path):
            console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return stage


def cache_of(config: Config) -> Path:
    """The folder of the store where tokenizers, encoded text and teachers' answers are kept."""
    return Path(config.runs_dir) / ".cache"


def unlabelled_stage(
    config: Config,
    console: Console,
    module: Callable[[Tokenizer, int], StageModule],
    tokenizer: Tokenizer | None = None,
    prepare: Callable[[LoadedText], LoadedText] = lambda text: text,
    held_out_rows: int = HELD_OUT_ROWS,
    **settings: Any,
) -> Stage:
    """LoadedText without labels, evaluated on what is held out; `module` is made for a tokenizer and a number of steps.

    `prepare` changes the text, `settings` are those of the architecture's batches.
    """
    cache = cache_of(config)
    text = prepare(announced(load_documents(config.source, cache, config.unlabelled_rows), console))
    tokenizer = tokenizer or load_tokenizer(config.source, config.backbone, cache)
    train = text_batches(config, text, "train", tokenizer, config.stage.batch, **settings)
    held_out = text_batches(config, text, "validation", tokenizer, EVALUATION_BATCH, **settings)
    total = total_steps(config.stage, train.steps_per_epoch)
    return Stage(
        module=module(tokenizer, total),
        train=train,
        evaluation=[held_out.fixed(held_out_rows)],
        samples=unlabelled_samples(config, train),
        evaluate_every=max(1, -(-total // EVALUATIONS)),
        source=text.record(config.rows_from),
    )


def text_batches(
    config: Config, text: LoadedText, split: str, tokenizer: Tokenizer, batch: int, **settings: Any
) -> BlockBatches:
    """Batches of a split of unlabelled text: single sentences to imitate, else as the backbone is pretrained."""
    documents = encoded_documents(text, split, tokenizer, cache_of(config))
    make: Callable[..., BlockBatches] | None
    if config.task.kind == "general":
        make, settings = SentenceBatches, {"task_rows": text.task_rows if split == "train" else 0}
    else:
        make = architecture_of(config.backbone).batches
    assert make is not None, "build_stage refuses what is not pretrained"
    return make(documents, tokenizer, config.seed, batch, config.stage.max_length, **settings)


def fine_tuning_stage(config: Config, console: Console, module: Callable[[int, EncodedRows, str], GlueModule]) -> Stage:
    """A task with labels; `module` is made for a number of steps, the training rows and the hash of the content."""
    task, stage = config.task, config.stage
    text = announced(load_rows(task, config.source), console)
    cache = cache_of(config)
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    encoded = {split: encoded_rows(text, split, task, tokenizer, stage.max_length, cache) for split in text.splits}
    rows = encoded["train"]
    if config.distills and config.distill.rows.other_tasks:
        others = other_rows(task, config.source, config.distill.rows.other_tasks)
        if others:
            rows = with_unlabelled(rows, others, tokenizer, stage.max_length)
        else:
            said = f"distill.rows.other_tasks adds nothing: the source has no other task like {task.name}"
            console.print(f"warning: {said}", style="yellow", soft_wrap=True)
    train = RowBatches(rows, config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    constant = _constant_scores(config, encoded)
    return Stage(
        module=module(total, encoded["train"], text.content_hash),
        train=train,
        evaluation=[evaluation_batches(encoded[split], EVALUATION_BATCH) for split in task.splits],
        samples=labelled_samples(config, encoded[next(iter(task.splits))]),
        evaluate_every=train.steps_per_epoch,
        source=text.record(config.rows_from),
        constant=constant,
    )


def _constant_scores(config: Config, encoded: Mapping[str, EncodedRows]) -> dict[str, float]:
    """What a predictor that always says the same scores on every evaluated split."""
    task = config.task
    scores: dict[str, float] = {}
    for split, suffix in task.splits.items():
        labels = torch.from_numpy(encoded[split].labels)
        constant = constant_predictor(labels, task.metrics, max(1, len(task.labels)), task.kind == "regression")
        scores |= {f"{name}{suffix}": constant[name] for name in task.metrics}
    return scores


def unlabelled_samples(config: Config, train: BlockBatches) -> list[Batch]:
    """What is measured on in pretraining and general distillation."""
    return _inputs(train.fixed(config.measure.samples))


def labelled_samples(config: Config, first: EncodedRows) -> list[Batch]:
    """What is measured on in a task with labels: one batch of the first evaluated split, drawn with seed 0."""
    return _inputs([RowBatches(first, 0, config.measure.samples)[0]])


def _inputs(batches: Sequence[Batch]) -> list[Batch]:
    return [{name: batch[name] for name in INPUTS} for batch in batches]


def announced(text: LoadedText, console: Console) -> LoadedText:
    """The text, after its warnings have been printed, and how many rows of it are left out."""
    for warning in text.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    if text.left_out:
        console.print(text.left_out, highlight=False, markup=False, soft_wrap=True)
    return text


def without_dropout(config: Config) -> Config:
    """The config of a student that has no dropout, as what it imitates has none."""
    return replace(config, backbone=replace(config.backbone, dropout=0.0, attention_dropout=0.0))
