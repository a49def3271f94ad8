"""What every kind of run is made of: text to batches to a module, and what is measured on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn

from spikelm.catalog.kinds import kind_of, named
from spikelm.config.checks import check
from spikelm.config.recorded import from_record
from spikelm.config.schema import Config
from spikelm.data.batches.blocks import BlockBatches
from spikelm.data.batches.by_step import Batch, RowBatches, StepBatches, evaluation_batches
from spikelm.data.batches.sentences import SentenceBatches
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.unlabelled_rows import other_rows
from spikelm.data.tokens.cache import encoded_documents, encoded_rows
from spikelm.data.tokens.encode import EncodedRows, encode_rows, with_unlabelled
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.errors import ConfigError
from spikelm.measure.metrics import constant_predictor
from spikelm.measure.trained_model import AUDIT_ROWS
from spikelm.training.modules import INPUTS, GlueModule, StageModule
from spikelm.training.optimization import total_steps

EVALUATION_BATCH = 128
EVALUATIONS = 10  # at most, of pretraining and general distillation
HELD_OUT_ROWS = 512  # pairs or sentences that pretraining and general distillation are evaluated on
#: kind of task -> the function of a kind's module of stages
FUNCTIONS = {
    **{"pretrain": "pretraining", "general": "general", "seq2seq": "pairs"},
    **dict.fromkeys(("classification", "regression"), "fine_tuning"),
}


@dataclass
class Stage:
    """All that a fit needs, and what its result says about the data."""

    module: StageModule
    train: StepBatches
    evaluation: list[list[Batch]]
    samples: list[Batch]  # what firing rates and energy are measured on
    evaluate_every: int
    source: dict[str, Any]
    constant: dict[str, float]
    measure: Callable[[nn.Module, list[Batch]], dict[str, Any]] | None = None  # where it is not the encoder's
    report: Callable[[], dict[str, Any]] | None = None  # what else the result holds


def build_stage(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """The stage of a config; `needed` are the directories of its prerequisites by role."""
    module = import_module(f"spikelm.{kind_of(config.backbone).stages}")
    build = getattr(module, FUNCTIONS[config.task.kind], None)
    if build is None:
        size = config.backbone
        raise ConfigError(f"this task needs a BERT; backbone={size.name} is a {size.kind}", "backbone=bert_mini")
    found: Stage = build(config, needed, console)
    return found


def unlabelled_stage(
    config: Config,
    console: Console,
    module: Callable[[Tokenizer, int], StageModule],
    tokenizer: Tokenizer | None = None,
    prepare: Callable[[LoadedText], LoadedText] = lambda text: text,
    held_out_rows: int = HELD_OUT_ROWS,
    **settings: Any,
) -> Stage:
    """Text without labels, evaluated on what is held out; `module` is made for a tokenizer and a number of steps.

    `prepare` changes the text, `settings` are those of the kind's batches.
    """
    cache = Path(config.runs_dir) / ".cache"
    text = prepare(announced(load_documents(config.source, cache, config.unlabelled_rows), console))
    tokenizer = tokenizer or load_tokenizer(config.source, config.backbone, cache)
    train = _text_batches(config, text, "train", tokenizer, config.stage.batch, **settings)
    held_out = _text_batches(config, text, "validation", tokenizer, EVALUATION_BATCH, **settings)
    total = total_steps(config.stage, train.steps_per_epoch)
    return Stage(
        module=module(tokenizer, total),
        train=train,
        evaluation=[held_out.fixed(held_out_rows)],
        samples=_sample(train.fixed(config.measure.samples)),
        evaluate_every=max(1, -(-total // EVALUATIONS)),
        source=text.record(config.source),
        constant={},
    )


def _text_batches(
    config: Config, text: LoadedText, split: str, tokenizer: Tokenizer, batch: int, **settings: Any
) -> BlockBatches:
    """Batches of a split of unlabelled text: single sentences to imitate, else as the backbone's kind is pretrained."""
    documents = encoded_documents(text, split, tokenizer, Path(config.runs_dir) / ".cache")
    if config.task.kind == "general":
        make, settings = SentenceBatches, {"task_rows": text.task_rows if split == "train" else 0}
    else:
        make = named(kind_of(config.backbone).batches)
    return make(documents, tokenizer, config.seed, batch, config.stage.max_length, **settings)


def fine_tuning_stage(config: Config, console: Console, module: Callable[[int, EncodedRows, str], GlueModule]) -> Stage:
    """A task with labels; `module` is made for a number of steps, the training rows and the hash of the content."""
    task, stage = config.task, config.finetune
    text = announced(load_rows(task, config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    encoded = {split: encoded_rows(text, split, task, tokenizer, stage.max_length, cache) for split in text.splits}
    rows = encoded["train"]
    if config.distills and config.distill.rows.other_tasks:
        others = other_rows(task, config.source, config.distill.rows.other_tasks)
        rows = with_unlabelled(rows, others, tokenizer, stage.max_length)
    train = RowBatches(rows, config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    first = next(iter(task.splits))
    regression = task.kind == "regression"
    constant: dict[str, float] = {}
    for split, suffix in task.splits.items():
        labels = torch.from_numpy(encoded[split].labels)
        found = constant_predictor(labels, task.metrics, max(1, len(task.labels)), regression)
        constant |= {f"{name}{suffix}": found[name] for name in task.metrics}
    return Stage(
        module=module(total, encoded["train"], text.content_hash),
        train=train,
        evaluation=[evaluation_batches(encoded[split], EVALUATION_BATCH) for split in task.splits],
        samples=_sample([RowBatches(encoded[first], 0, config.measure.samples)[0]]),
        evaluate_every=train.steps_per_epoch,
        source=text.record(config.source),
        constant=constant,
    )


def audit_batch(saved: Mapping[str, Any], count: int = AUDIT_ROWS) -> Batch:
    """The first rows of a finished run's measurement samples, from its recorded config."""
    config = from_record(saved)
    check(config)
    if config.task.kind == "seq2seq":
        from spikelm.training.seq2seq_builder import audit_pairs

        return audit_pairs(config)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    if config.task.kind in ("pretrain", "general"):
        text = load_documents(config.source, cache, config.unlabelled_rows)
        samples = _text_batches(config, text, "train", tokenizer, config.stage.batch).fixed(count)
    else:
        split = next(iter(config.task.splits))
        rows = load_rows(config.task, config.source).splits[split][:count]
        samples = evaluation_batches(encode_rows(config.task, rows, tokenizer, config.finetune.max_length), count)
    return _sample(samples)[0]


def announced(text: LoadedText, console: Console) -> LoadedText:
    for warning in text.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return text


def _sample(batches: Sequence[Batch]) -> list[Batch]:
    return [{name: batch[name] for name in INPUTS} for batch in batches]
