"""Causal language modelling: decoders that are trained on running text, and what their perplexity is measured by.

A student learns from the plain model of its task: the next token, its teacher's logits, and its hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.catalog.checkpoint_files import backbone_folder
from spikelm.catalog.energy import causal_terms, energy_mj, lm_head_terms
from spikelm.catalog.kinds import LM, Kind, named
from spikelm.config.settings.distill import DistillConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import window_and_stride
from spikelm.data.batches.by_step import Batch
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.batches.windows import EvaluatedText, evaluated_text, windows
from spikelm.data.sources.running_text import evaluated_splits, load_running_text, training_text
from spikelm.data.tokens.cache import encoded_documents
from spikelm.data.tokens.running_text_tokenizer import (
    end_of_text,
    first_token,
    load_lm_tokenizer,
    load_text_tokenizer,
    marked,
    save_lm_tokenizer,
)
from spikelm.errors import ConfigError
from spikelm.measure.causality import refuse_what_looks_elsewhere
from spikelm.measure.generated_text import audit_going_on
from spikelm.measure.perplexity import Predicted, lm_scores
from spikelm.measure.trained_model import Measured, TokenEnergy, measure_model, measure_plain
from spikelm.models.architecture import Architecture
from spikelm.models.decoders import build_decoder, load_decoder, plain_decoder
from spikelm.models.gpt2 import build_gpt2
from spikelm.training.causal import CausalModule, next_token_losses
from spikelm.training.devices.ranks import summed
from spikelm.training.distill.losses import Variances, hidden_losses, layer_weights, logits_loss, state_sums, weighted
from spikelm.training.modules import StageModule
from spikelm.training.optimization import total_steps
from spikelm.training.places import places, rows_at, with_places
from spikelm.training.stage import Stage, Texts, announced, cache_of, unlabelled_stage

EVALUATED_TOKENS = 2048  # at a time: the logits of large vocabularies are what takes the memory
MEASURED_ROWS = 8  # at a time, for the same reason
HELD_OUT_WINDOWS = 64  # of a pretraining, each many sentences long
GPT2_PARTS = ("transformer", "lm_head")
INPUTS = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class ReadText:
    """A task's text as a decoder reads it: its tokenizer, the mark behind documents, what is evaluated."""

    tokenizer: Tokenizer
    end: int
    evaluated: Sequence[EvaluatedText]  # of each split


class LanguageModule(CausalModule):
    """Loss = mean cross entropy of the next token; evaluated by windows in which each token is predicted once."""

    def __init__(
        self, model: nn.Module, config: Config, total: int, evaluated: Sequence[EvaluatedText], stage: StageConfig
    ) -> None:
        super().__init__(model, stage, total, config.seed)
        self.task = config.task
        self.neuron = config.neuron.name
        self.evaluated = evaluated
        self.looked = False  # whether it is known that no token depends on those behind it

    def on_train_start(self) -> None:
        """A neuron that sees the answer would make any number that follows worthless; its amplitudes are set by now."""
        if not self.looked:
            refuse_what_looks_elsewhere(self.model, f"a model with neuron={self.neuron}")
            self.looked = True

    def on_validation_start(self) -> None:
        self.on_train_start()

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Any:
        """What is evaluated has labels, whose places are found where nothing waits for a device."""
        if not self.trainer.training:
            return with_places(batch, ("label_places",))
        return super().on_before_batch_transfer(batch, dataloader_idx)

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(len(self.evaluated), 3, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        chosen = places(batch, "label_places")
        predicted, wanted = rows_at(self.logits(batch), chosen).float(), rows_at(batch["labels"], chosen)
        loss = F.cross_entropy(predicted, wanted, reduction="sum").double()
        right = (predicted.argmax(-1) == wanted).sum().double()
        self._seen[dataloader_idx] += torch.stack([loss, right, loss.new_full((), len(chosen))])

    def on_validation_epoch_end(self) -> None:
        self.scores = {}
        sums = summed(self._seen).tolist()
        for text, suffix, (loss, right, tokens) in zip(self.evaluated, self.task.splits.values(), sums, strict=True):
            predicted = Predicted(loss, right, tokens, text.words, text.bytes)
            scores = lm_scores(predicted, self.task.metrics)
            self.scores |= {f"{name}{suffix}": value for name, value in scores.items()}


class LanguageStudent(LanguageModule):
    """Loss = labels * cross entropy + logits * KL (or squared error) + hidden * mean over layers of |s - t|^2 / var(t).

    Every token with another before it counts, in the hidden states every token.
    """

    counted: tuple[str, ...] = ("next_places", "token_places")

    def __init__(self, *args: Any, teacher: nn.Module, settings: DistillConfig) -> None:
        super().__init__(*args)
        self._teacher = [teacher.eval().requires_grad_(False)]  # in a list: it is no module of its student
        self.settings = settings
        self.variances = Variances()
        if settings.start.frozen_embeddings:
            self.model.get_input_embeddings().requires_grad_(False)

    @torch.no_grad()
    def answers(self, batch: Batch) -> Any:
        """What the teacher says to a batch."""
        teacher: Any = self._teacher[0]
        if teacher.device != batch["input_ids"].device:
            teacher.to(batch["input_ids"].device)
        return self._asked(teacher, batch)

    def _asked(self, model: Any, batch: Batch) -> Any:
        states = bool(self.settings.losses.hidden)
        return model(**{name: batch[name] for name in INPUTS}, use_cache=False, output_hidden_states=states)

    def look_ahead(self, parts: Sequence[Batch]) -> None:
        """What the teacher's states vary by over all parts of a step."""
        self.variances.forget()
        if len(parts) > 1 and self.settings.losses.hidden and self.settings.states.scaled:
            sums = [state_sums(self._states(self.answers(part)), places(part, "token_places"), part) for part in parts]
            self.variances.look_ahead({"hidden": sums})

    def _states(self, output: Any) -> Sequence[Tensor]:
        states: Sequence[Tensor] = output.hidden_states[1:]
        return states

    def step_loss(self, batch: Batch) -> Tensor:
        settings, tokens = self.settings, batch.get("token_share", 1.0)
        goal, output = self.answers(batch), self._asked(self.model, batch)
        before = places(batch, "next_places")
        loss = output.logits.new_zeros(())
        if settings.losses.labels:
            mean = next_token_losses(output.logits, batch["input_ids"], before)[0] / max(1, len(before))
            loss = loss + settings.losses.labels * mean
        if settings.losses.logits:
            ours, theirs = (rows_at(side.logits, before).float() for side in (output, goal))
            answers = logits_loss(ours, theirs, settings.logits.temperature, settings.logits.loss)
            loss = loss + settings.losses.logits * answers
        if settings.losses.hidden:
            real, goals = places(batch, "token_places"), self._states(goal)
            spread = self.variances("hidden", goals, real, batch) if settings.states.scaled else None
            layers = hidden_losses(self._states(output), goals, real, settings.states.scaled, spread)
            shares = layer_weights(settings, len(layers), self.global_step / self.total)
            loss = loss + settings.losses.hidden * weighted(layers, shares)
        return loss * tokens


def llama(kind: Kind) -> Architecture:
    """Llama and those built like it, of transformers."""
    return Architecture(language_modelling=language_modelling)


def gpt2(kind: Kind) -> Architecture:
    """A decoder like others, pretrained on running text for its summaries, which it writes without any training."""

    def text_pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
        stage: Stage = named(kind.text_pairs)(config, needed, console)  # loaded when it is asked for: a rival's
        return stage

    return Architecture(
        batches=CausalBatches,
        pretraining=gpt2_pretraining,
        text_pairs=text_pairs,
        language_modelling=language_modelling,
    )


def gpt2_pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A GPT-2 on the project's text, where no weights are given."""
    tokenizer = load_text_tokenizer(config.source, config.backbone, cache_of(config))
    end, size = end_of_text(tokenizer), config.backbone

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        model = build_gpt2(config, tokenizer.get_vocab_size(), tokenizer.get_vocab()[end])
        return CausalModule(model, config.pretrain, total, config.seed)

    prepare = partial(marked, end=end)
    stage = unlabelled_stage(config, console, module, tokenizer, prepare, HELD_OUT_WINDOWS, across=True)
    terms = causal_terms(size.layers, size.hidden, size.intermediate, config.measure.length)
    stage.measure = lambda model, samples: measure_plain(terms, GPT2_PARTS)
    return stage


def language_modelling(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A decoder from scratch, from given weights or from its teacher, which a student also imitates."""
    models = {role: directory / "model" for role, directory in needed.items()}

    def module(total: int, text: ReadText) -> LanguageModule:
        settings, training = config.distill, (config, total, text.evaluated, config.stage)
        model = _started(config, models, text)
        if "teacher" not in models or config.only_converts or not settings.imitates:
            return LanguageModule(model, *training)
        teacher = load_decoder(plain_decoder(config), models["teacher"])
        return LanguageStudent(model, *training, teacher=teacher, settings=settings)

    stage = language_stage(config, console, module)
    if config.only_converts:
        stage.plain = partial(load_decoder, plain_decoder(config), models["teacher"])
    return stage


def _started(config: Config, models: Mapping[str, Path], text: ReadText) -> nn.Module:
    """The model that training starts from: converted, its teacher's weights, the backbone's own, or random ones."""
    if "converted" in models:
        return load_decoder(config, models["converted"])
    if "teacher" in models and (config.only_converts or config.distill.start.weights == "teacher"):
        return load_decoder(config, models["teacher"])
    if config.backbone.path:
        return load_decoder(config)
    return build_decoder(config, text.tokenizer.get_vocab_size(), text.end)


def language_stage(
    config: Config,
    console: Console,
    module: Callable[[int, ReadText], StageModule],
) -> Stage:
    """Running text to batches and windows; `module` is made for a number of steps and the text."""
    task, stage, cache = config.task, config.stage, cache_of(config)
    text = announced(load_running_text(task, config.source, cache), console)
    tokenizer = load_lm_tokenizer(task, config.source, config.backbone, text, cache)
    end = end_of_text(tokenizer)
    folder = backbone_folder(config.backbone) if config.backbone.path else None
    first = first_token(tokenizer, folder)
    splits = evaluated_splits(task, text)
    evaluated = [evaluated_text(text, split, task, tokenizer, stage.max_length) for split in splits]
    for one in evaluated:
        console.print(one.note, highlight=False, markup=False, soft_wrap=True)
    documents = encoded_documents(training_text(text, task.detokenise, end), "train", tokenizer, cache)
    train = CausalBatches(documents, tokenizer, config.seed, stage.batch, stage.max_length, across=True)
    total = total_steps(stage, train.steps_per_epoch)
    window, stride = window_and_stride(task, stage.max_length)
    rows = max(1, EVALUATED_TOKENS // window)
    return Stage(
        module=module(total, ReadText(tokenizer, tokenizer.get_vocab()[end], evaluated)),
        train=train,
        evaluation=[windows(one.ids, first, window, stride, rows) for one in evaluated],
        samples=_samples(config, evaluated[0], first),
        evaluate_every=max(1, total // 5),
        source=text.record(config.rows_from),
        measure=partial(measure_decoder, config),
        texts=lambda: Texts([], {"perplexity": " ".join(one.note for one in evaluated)}),
        save_beside=partial(save_lm_tokenizer, tokenizer, folder, first),
    )


def refuse_choosing_by_test(config: Config) -> None:
    """Which splits a folder has is known when it is read; what the config alone says was checked before."""
    if config.select != "best_dev" or config.task.kind != LM:
        return
    text = load_running_text(config.task, config.source, cache_of(config))
    if evaluated_splits(config.task, text)[0] != "validation":
        raise ConfigError(
            f"select=best_dev would choose by a test text: {config.source.root} has no validation text",
            "select=last, or a validation.txt in that folder",
        )


def language_samples(config: Config) -> list[Batch]:
    """The samples of a run, found again from its config without building its model."""
    task, cache = config.task, cache_of(config)
    text = load_running_text(task, config.source, cache)
    tokenizer = load_lm_tokenizer(task, config.source, config.backbone, text, cache)
    folder = backbone_folder(config.backbone) if config.backbone.path else None
    split = evaluated_splits(task, text)[0]
    evaluated = evaluated_text(text, split, task, tokenizer, config.stage.max_length)
    return _samples(config, evaluated, first_token(tokenizer, folder))


def _samples(config: Config, text: EvaluatedText, first: int) -> list[Batch]:
    """What firing rates, energy and audit are measured on: the first rows of the evaluated text."""
    length = min(config.measure.length, len(text.ids))
    batches = windows(text.ids[: length * config.measure.samples], first, length, length, MEASURED_ROWS)
    return [{name: batch[name] for name in INPUTS} for batch in batches]


def measure_decoder(config: Config, model: Any, samples: Sequence[Batch]) -> Measured:
    """Firing, audits, and energy of reading `measure.length` tokens one by one; the LM head stays apart."""
    measured = measure_model(model, samples, config)
    if config.converted and config.kind.causal:
        measured.spike_driven.decoding = audit_going_on(model, samples[0], config.time_steps).verdict
    tokens, energy = config.measure.length, measured.energy_mj["fp32"]
    measured.energy_token = TokenEnergy(
        tokens,
        None if energy is None else energy / tokens,
        measured.energy_ann_mj["fp32"] / tokens,
        energy_mj(lm_head_terms(config.backbone.hidden, model.config.vocab_size, 1)),
    )
    return measured
