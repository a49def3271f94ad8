"""ELMo's two stages: the biLM on single sentences, then a task over the frozen biLM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from spikelm.catalog.energy import bilm_terms, elmo_terms
from spikelm.catalog.kinds import Kind
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch
from spikelm.data.batches.sentences import SentenceBatches
from spikelm.measure.trained_model import measure_plain
from spikelm.models.architecture import Architecture
from spikelm.models.bert import num_labels
from spikelm.rivals.elmo.bilm import BiLM
from spikelm.rivals.elmo.elmo import (
    ElmoForSequenceClassification,
    build_bilm,
    build_elmo_classifier,
    split_sentences,
)
from spikelm.training.devices.ranks import summed
from spikelm.training.modules import GlueModule, StageModule
from spikelm.training.stage import Stage, fine_tuning_stage, unlabelled_stage

SHORTEST = 3  # tokens of a sentence to learn from: [CLS], one, [SEP]


def architecture(kind: Kind) -> Architecture:
    """A biLM, and a task's own model over it."""
    return Architecture(
        pretrainer=BiLM,
        classifier=ElmoForSequenceClassification,
        batches=SentenceBatches,
        pretraining=pretraining,
        fine_tuning=fine_tuning,
    )


def single_sentences(batch: Batch) -> tuple[Tensor, Tensor]:
    """Every sentence of the rows as a row of its own, as in the 1B Word Benchmark, which shuffles sentences."""
    parts = split_sentences(*(batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")))
    ids, mask = (torch.cat(sides) for sides in zip(*parts, strict=True))
    long = mask.sum(1) >= SHORTEST
    return ids[long], mask[long]


class BiLMModule(StageModule):
    """Loss = mean cross entropy of the next token + that of the token before, 1:1."""

    def step_loss(self, batch: Batch) -> Tensor:
        losses = self.model.losses(*single_sentences(batch))
        return (losses["forward_loss"] + losses["backward_loss"]) * batch.get("token_share", 1.0)

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(3, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        losses = self.model.losses(*single_sentences(batch))
        sums = [losses[name].double() * losses["count"] for name in ("forward_loss", "backward_loss")]
        self._seen += torch.stack([*sums, losses["count"].double()])

    def on_validation_epoch_end(self) -> None:
        ahead, back, count = summed(self._seen).tolist()
        self.scores = {
            "loss": (ahead + back) / count,
            "forward_loss": ahead / count,
            "backward_loss": back / count,
        }


def pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """The biLM on the project's text."""

    def module(tokenizer: Any, total: int) -> StageModule:
        return BiLMModule(build_bilm(config, tokenizer), config.pretrain, total, config.seed)

    size, length = config.backbone, config.measure.length
    stage = unlabelled_stage(config, console, module)
    terms = bilm_terms(size.layers, size.hidden, size.intermediate, size.options, length)
    stage.measure = lambda model, samples: measure_plain(terms, ["tokens", "forwards", "backwards", "softmax"])
    return stage


def fine_tuning(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A GLUE task over the frozen biLM of the pretrained run."""
    size, pairs = config.backbone, len(config.task.columns) == 2

    def module(total: int, *_: Any) -> GlueModule:
        model = build_elmo_classifier(config, needed["pretrained"] / "model")
        return GlueModule(model, config.task, config.finetune, total, config.seed)

    stage = fine_tuning_stage(config, console, module)
    count = partial(elmo_terms, size.layers, size.hidden, size.intermediate, size.options, config.measure.length)
    terms = count(pairs, num_labels(config))
    stage.measure = lambda model, samples: measure_plain(terms, ["bilm", "encoder", "classifier"])
    return stage
