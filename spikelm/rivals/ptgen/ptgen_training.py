"""The pointer-generator on summaries: cross entropy of the mixture, coverage in a last phase if asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor
from torch.nn import functional as F

from spikelm.catalog.energy import energy_mj, pointer_terms
from spikelm.catalog.kinds import Kind
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.measure.generated_text import measure_plain_generation
from spikelm.measure.trained_model import Measured
from spikelm.models.architecture import Architecture
from spikelm.rivals.ptgen.pointer_generator import PointerConfig, PointerGenerator, coverage_loss
from spikelm.rivals.ptgen.words import known_words, load_word_tokenizer
from spikelm.training.generation import Generator
from spikelm.training.modules import StepBatch
from spikelm.training.seq2seq import INPUTS, PairTask, Seq2SeqModule, text_pairs_stage
from spikelm.training.stage import Stage

PARTS = ("encoder", "cell", "query", "score", "out", "lm_head")


def architecture(kind: Kind) -> Architecture:
    """Summaries from scratch: it has no pretraining."""
    return Architecture(generator=PointerGenerator, text_pairs=text_pairs)


class PointerModule(Seq2SeqModule):
    """-log P(w) over the extended vocabulary, and from `coverage_from` of the steps on the coverage loss beside it."""

    coverage: float = 0.0  # weight of the coverage loss
    coverage_from: float = 1.0
    idle_parameters = True  # what attends to coverage, before that phase

    def token_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        columns = self.model.label_columns(batch["labels"].clamp_min(0), batch["input_ids"])
        columns = torch.where(batch["labels"] == IGNORED, IGNORED, columns)
        return F.nll_loss(logits.float().flatten(0, 1), columns.flatten(), ignore_index=IGNORED)

    def on_train_batch_start(self, batch: StepBatch, batch_idx: int) -> None:
        super().on_train_batch_start(batch, batch_idx)
        self._cover()

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self._cover()

    def _cover(self) -> None:
        """Kept in the model's config, so that a saved model attends as it was trained to."""
        self.model.config.covering = bool(self.coverage) and self.global_step >= self.coverage_from * self.total

    def step_loss(self, batch: Batch) -> Tensor:
        output = self.model(**{name: batch[name] for name in INPUTS})
        loss = self.token_loss(output.logits, batch)
        if self.model.config.covering:
            loss = loss + self.coverage * coverage_loss(output.attentions, batch["labels"] != IGNORED)
        return loss * batch.get("label_share", 1.0)


def text_pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A pointer-generator from scratch: it has no pretraining."""
    own = config.backbone.options

    def module(total: int, generator: Generator, tokenizer: TextPairTokenizer) -> PointerModule:
        model = build_pointer(config, tokenizer)
        pointer = PointerModule(model, config.task, config.finetune, total, config.seed, generator)
        pointer.coverage, pointer.coverage_from = own["coverage"], own["coverage_from"]
        return pointer

    def measure(model: Any, samples: list[Batch], generator: Generator, vocab: int) -> Measured:
        return measure_pointer(config, generator, model.config.vocab_size)

    return text_pairs_stage(config, console, PairTask(module, measure, load_word_tokenizer))


def build_pointer(config: Config, tokenizer: TextPairTokenizer) -> PointerGenerator:
    """A randomly initialised model for the tokenizer's known words."""
    size = config.backbone
    settings = PointerConfig(
        vocab_size=known_words(tokenizer),
        embedding_size=size.options["embedding"],
        hidden_size=size.hidden,
        initializer_range=size.init,
        unk_token_id=tokenizer.tokenizer.get_vocab()["<unk>"],
        pad_token_id=tokenizer.pad,
        bos_token_id=tokenizer.bos,
        eos_token_id=tokenizer.eos,
        decoder_start_token_id=tokenizer.decoder_start,
    )
    return PointerGenerator(settings)


def measure_pointer(config: Config, generator: Generator, known: int) -> Measured:
    """Energy at the task's lengths and of what was generated; the matmul of the known words apart, as for BART."""
    size, task = config.backbone, config.task

    def terms(source: int, target: int, beams: int = 1) -> Any:
        return pointer_terms(size.options["embedding"], size.hidden, source, target, beams)

    head = energy_mj(pointer_terms(size.options["embedding"], size.hidden, 1, task.target_length, head=known)[-1:])
    lengths = (task.source_length, task.target_length)
    return measure_plain_generation(terms, lengths, generator.lengths, int(generator.options["num_beams"]), head, PARTS)
