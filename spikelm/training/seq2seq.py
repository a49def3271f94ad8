"""Tasks with text pairs: the Lightning modules of encoder-decoders, and the stage that trains them.

A student learns from its plain teacher as DQ-BART does: cross entropy of the target, its teacher's logits, hidden
states and attention maps (docs/guide/distillation.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.catalog.kinds import Kind
from spikelm.config.settings.distill import DistillConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import NeuronSpec, QuantizerSpec
from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.batches.text_pair_batches import TextPairBatches, evaluation_text_pairs, text_pair_batch
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.data.tokens.cache import encoded_text_pairs
from spikelm.data.tokens.encode import NO_TEXT_PAIRS, EncodedTextPairs
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.measure.generated_text import generate_options, measure_seq2seq
from spikelm.measure.trained_model import Measured
from spikelm.models.architecture import Architecture
from spikelm.models.bart import SpecialTokens, build_seq2seq, load_public, load_seq2seq
from spikelm.training.best_epoch import select_mode
from spikelm.training.devices.ranks import Ranks, summed, training_device
from spikelm.training.distill.losses import (
    Variances,
    attention_losses,
    hidden_losses,
    layer_weights,
    logits_loss,
    state_sums,
    weighted,
)
from spikelm.training.distill.teacher_texts import TeacherTexts
from spikelm.training.distill.token_losses import sum_by_tokens
from spikelm.training.generation import Generator, ProgressLines, Split
from spikelm.training.modules import StageModule
from spikelm.training.optimization import total_steps
from spikelm.training.places import places, rows_at
from spikelm.training.stage import Stage, Texts, announced, cache_of, without_dropout

EVALUATION_BATCH = 32
LOSS_BATCHES = 16  # of the first split at most, spread over it, that the loss is measured on: it costs as much as texts
INPUTS = ("input_ids", "attention_mask", "decoder_input_ids")
STATES = {"encoder_hidden_states": "token_places", "decoder_hidden_states": "label_places"}  # and what counts in them
Tokenizers = Callable[..., TextPairTokenizer]  # of task, source, backbone, text and cache


class Seq2SeqModule(StageModule):
    """Loss = mean cross entropy of the target's tokens; evaluated by it, and by generated text at the end."""

    def __init__(
        self, model: nn.Module, task: TaskConfig, stage: StageConfig, total: int, seed: int, generator: Generator
    ) -> None:
        super().__init__(model, stage, total, seed)
        self.task = task
        self.generator = generator

    def token_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)

    def step_loss(self, batch: Batch) -> Tensor:
        output = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False)
        return self.token_loss(output.logits, batch) * batch.get("label_share", 1.0)

    @property
    def last(self) -> bool:
        """Whether training is over: then text is generated, which costs more than all losses before."""
        return self.global_step >= self.total

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.generator.start()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        batches = self.trainer.num_val_batches[dataloader_idx]
        if dataloader_idx == 0 and batch_idx % -(-batches // LOSS_BATCHES) == 0:
            output = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False)
            words = (batch["labels"] != IGNORED).sum()
            self._seen += torch.stack([self.token_loss(output.logits, batch).double() * words, words.double()])
        if self.last or self.generator.always:
            self.generator.generate(self.model, batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        loss, words = summed(self._seen).tolist()
        self.scores = self.generator.scores() | {"loss": loss / words}


class Seq2SeqStudent(Seq2SeqModule):
    """Cross entropy + KL (or squared error) on logits + squared errors of hidden states and attention maps.

    Hidden states: encoder and decoder; maps: encoder, decoder and cross attention, a mean over each list's layers.
    """

    counted: tuple[str, ...] = ("token_places", "label_places")

    def __init__(self, *args: Any, teacher: Seq2SeqTeacher, settings: DistillConfig) -> None:
        super().__init__(*args)
        self.teacher = teacher
        self.settings = settings
        self.variances = Variances()
        if settings.start.frozen_embeddings:
            self.model.get_input_embeddings().requires_grad_(False)

    def look_ahead(self, parts: Sequence[Batch]) -> None:
        """What the teacher's states vary by over all parts of a step."""
        self.variances.forget()
        if len(parts) > 1 and self.settings.losses.hidden and self.settings.states.scaled:
            sums: dict[str, list[Tensor]] = {name: [] for name in STATES}
            for part in parts:  # one answer at a time: they are large
                goal = self.teacher(part)
                for name, real in STATES.items():
                    sums[name].append(state_sums(goal[name], places(part, real), part))
            self.variances.look_ahead(sums)

    def step_loss(self, batch: Batch) -> Tensor:
        settings = self.settings
        goal = self.teacher(batch)
        output = answered(self.model, batch, settings)
        loss: Tensor = batch["input_ids"].new_zeros((), dtype=torch.float32)
        if settings.losses.labels or settings.losses.logits:
            words = batch.get("label_share", 1.0)
            loss = loss + words * self.word_loss(output.last_hidden_state, goal.last_hidden_state, batch)
        for weight, part, share in self.parts(output, goal, batch):
            loss = loss + weight * part * batch.get(share, 1.0)
        return loss

    def word_loss(self, states: Tensor, goals: Tensor, batch: Batch) -> Tensor:
        """Cross entropy of the labels and difference from the teacher's logits, mean over the target's tokens."""
        settings, target = self.settings, places(batch, "label_places")
        labels, goals = rows_at(batch["labels"], target), rows_at(goals, target)

        def of_tokens(few: Tensor, part: slice) -> Tensor:
            logits = logits_of(self.model, few).float()
            loss = logits.new_zeros(())
            if settings.losses.labels:
                loss = loss + settings.losses.labels * F.cross_entropy(logits, labels[part], reduction="sum")
            if settings.losses.logits:
                with torch.no_grad():
                    theirs = self.teacher.logits(goals[part]).float()
                mean = logits_loss(logits, theirs, settings.logits.temperature, settings.logits.loss)
                loss = loss + settings.losses.logits * len(few) * mean
            return loss

        summed_up = sum_by_tokens(of_tokens, rows_at(states, target), self.model.get_output_embeddings())
        return summed_up / max(1, len(target))

    def parts(self, output: Any, goal: Any, batch: Batch) -> list[tuple[float, Tensor, str]]:
        """Weight, loss and the share that weighs it on several devices, of what layers learn from the teacher."""
        settings = self.settings
        source, target = places(batch, "token_places"), places(batch, "label_places")
        parts: list[tuple[float, Tensor, str]] = []
        lists: list[tuple[float, Callable[..., list[Tensor]], str, Tensor, str]] = [
            (settings.losses.hidden, hidden_losses, "encoder_hidden_states", source, "token_share"),
            (settings.losses.hidden, hidden_losses, "decoder_hidden_states", target, "label_share"),
            (settings.losses.attention, attention_losses, "encoder_attentions", source, "token_share"),
            (settings.losses.attention, attention_losses, "decoder_attentions", target, "label_share"),
            (settings.losses.attention, attention_losses, "cross_attentions", target, "label_share"),
        ]
        for weight, losses, name, real, share in lists:
            if weight:
                # the embeddings, first of the hidden states, are the teacher's at the start and trained like the rest
                scaled = settings.states.scaled and name in STATES
                spread = self.variances(name, goal[name], real, batch) if scaled else None
                spread_of = {"scaled": settings.states.scaled, "variances": spread} if name in STATES else {}
                layers = losses(output[name], goal[name], real, **spread_of)
                weights = layer_weights(settings, len(layers), self.global_step / self.total)
                parts.append((weight, weighted(layers, weights), share))
        return parts


class Seq2SeqTeacher:
    """A frozen plain model in eval mode that is asked with the target before it, as the student is."""

    def __init__(self, model: Any, settings: DistillConfig) -> None:
        self.model = model.eval().requires_grad_(False)
        self.settings = settings

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Any:
        if self.model.device != batch["input_ids"].device:
            self.model.to(batch["input_ids"].device)
        return answered(self.model, batch, self.settings)

    def logits(self, states: Tensor) -> Tensor:
        """What it makes of its own last states."""
        return logits_of(self.model, states)


def answered(model: Any, batch: Batch, settings: DistillConfig) -> Any:
    """What a model makes of a batch, without its LM head, which costs about as much as all blocks."""
    return model.base_model(**{name: batch[name] for name in INPUTS}, use_cache=False, **recorded(settings))


def logits_of(model: Any, states: Tensor) -> Tensor:
    """The logits of tokens (tokens, width) that BART, mBART and Marian compute."""
    logits: Tensor = model.get_output_embeddings()(states) + model.final_logits_bias
    return logits


def recorded(settings: DistillConfig) -> Mapping[str, bool]:
    """What a forward pass has to keep for the losses asked for."""
    return {"output_hidden_states": bool(settings.losses.hidden), "output_attentions": bool(settings.losses.attention)}


def architecture(kind: Kind) -> Architecture:
    """BART, mBART or Marian of transformers."""
    config: Any = getattr(transformers, f"{kind.transformers}Config")
    # Marian's is a MarianMTModel, the others' end in ForConditionalGeneration.
    generator = transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING[config]
    return Architecture(config=config, generator=generator, text_pairs=text_pairs)


def text_pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """BART, mBART or Marian; a student has its fine-tuned teacher among the `needed`."""

    def measure(model: nn.Module, samples: list[Batch], generator: Generator, vocab: int) -> Measured:
        return measure_seq2seq(model, samples, config, generator.lengths, generator.options, vocab)

    task = PairTask(partial(_module, config, needed), measure)
    if config.distills and config.distill.targets == "teacher":
        task = replace(task, rewritten=partial(_teacher_texts, config, needed["teacher"], console))
    stage = text_pairs_stage(config, console, task)
    if config.only_converts:
        stage.plain = partial(load_seq2seq, _plain(config), needed["teacher"] / "model")
    return stage


@dataclass(frozen=True)
class PairTask:
    """What tells one model of text pairs from another: its module, its measurement, its tokenizer.

    `module` is made for a number of steps, the generator and the tokenizer; `measure` is given a model, its samples,
    the generator and the number of pieces; `options` of generate() are added to the task's. `rewritten` gives training
    rows other targets, of so many steps of their batches.
    """

    module: Callable[[int, Generator, TextPairTokenizer], Seq2SeqModule]
    measure: Callable[[nn.Module, list[Batch], Generator, int], Measured]
    tokenizer: Tokenizers = load_text_pair_tokenizer
    options: Mapping[str, Any] | None = None
    rewritten: Callable[[TextPairBatches, int, str], EncodedTextPairs] | None = None


def text_pairs_stage(config: Config, console: Console, pair_task: PairTask) -> Stage:
    """A task with text pairs, trained on the target's tokens and evaluated by generated texts."""
    task, stage = config.task, config.stage
    text, tokenizer, encoded = load_task(config, console, pair_task.tokenizer)
    train = TextPairBatches(encoded.get("train", NO_TEXT_PAIRS), tokenizer, config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    if pair_task.rewritten:
        train.data = pair_task.rewritten(train, total, text.content_hash)
    generator = generator_of(config, text, tokenizer, console)
    generator.options = {**generator.options, **(pair_task.options or {})}
    module = pair_task.module(total, generator, tokenizer)
    generator = module.generator  # the module's own, where it has another
    first = _first_rows(config, encoded, tokenizer)

    def measure(model: nn.Module, samples: list[Batch]) -> Measured:
        if select_mode(config) != "last":  # the texts are of the last evaluation, the model is not
            generator.again(model, first)
        return pair_task.measure(model, samples, generator, tokenizer.vocab_size)

    return Stage(
        module=module,
        train=train,
        evaluation=[evaluation_text_pairs(encoded[split], tokenizer, EVALUATION_BATCH) for split in task.splits],
        samples=pair_samples(config, encoded, tokenizer),
        evaluate_every=max(1, total // 5),
        source=text.record(config.rows_from),
        measure=measure,
        texts=lambda: Texts(generator.samples(), generator.notes),
    )


def load_task(
    config: Config, console: Console, load: Tokenizers = load_text_pair_tokenizer
) -> tuple[LoadedText, TextPairTokenizer, dict[str, EncodedTextPairs]]:
    """The texts of a task with text pairs, its tokenizer, and every split encoded."""
    task, cache = config.task, cache_of(config)
    text = announced(load_text_pairs(task, config.source), console)
    tokenizer = load(task, config.source, config.backbone, text, cache)
    return text, tokenizer, {split: encoded_text_pairs(text, split, task, tokenizer, cache) for split in text.splits}


def pair_samples(config: Config, encoded: Mapping[str, EncodedTextPairs], tokenizer: TextPairTokenizer) -> list[Batch]:
    """What is measured on in a task with text pairs."""
    rows = _first_rows(config, encoded, tokenizer)
    return [{name: rows[name] for name in INPUTS}]


def _first_rows(config: Config, encoded: Mapping[str, EncodedTextPairs], tokenizer: TextPairTokenizer) -> Batch:
    """The first rows of the first evaluated split as they come: sorted by length, they would be the shortest."""
    first = encoded[next(iter(config.task.splits))]
    return text_pair_batch(first, range(min(config.measure.samples, len(first))), tokenizer)


def generator_of(config: Config, text: LoadedText, tokenizer: TextPairTokenizer, console: Console) -> Generator:
    """What decodes the evaluated splits of a task as its settings say."""
    task = config.task
    source, target = task.columns
    splits = [
        Split(suffix, [row[source] for row in text.splits[name]], [row[target] for row in text.splits[name]])
        for name, suffix in task.splits.items()
    ]
    # ROUGE of embedded texts mostly measures their templates, so these texts are also scored by what they name
    metrics = dict.fromkeys([*task.metrics, "exact_match"] if text.entities else task.metrics)
    return Generator(
        metrics=list(metrics),
        splits=splits,
        options=generate_options(task.generate),
        decode=lambda ids: tokenizer.decode([ids])[0],
        most_per_token=task.generate.most_per_token,
        always=select_mode(config) != "last",
        progress=ProgressLines(console, task.name) if config.trainer.progress else None,
        entities=text.entities,
    )


def _module(
    config: Config, needed: Mapping[str, Path], total: int, generator: Generator, tokenizer: TextPairTokenizer
) -> Seq2SeqModule:
    """The module of a plain fine-tuning, or of a student with its teacher."""
    settings, training = config.distill, (config.task, config.stage, total, config.seed, generator)
    models = {role: directory / "model" for role, directory in needed.items()}
    if config.only_converts:
        return Seq2SeqModule(load_seq2seq(config, models["teacher"]), *training)
    model: Any
    started = config if settings.start.dropout else without_dropout(config)
    if "converted" in models:
        model = load_seq2seq(started, models["converted"])
    elif "teacher" in models and settings.start.weights == "teacher":
        model = load_seq2seq(started, models["teacher"])
    else:
        model = _fresh(config, tokenizer)
    if "teacher" not in models:
        return Seq2SeqModule(model, *training)
    teacher: Any = load_seq2seq(_plain(config), models["teacher"])
    if settings.losses.attention:  # only the eager path has maps
        model.set_attn_implementation("eager")
        teacher.set_attn_implementation("eager")
    return Seq2SeqStudent(model, *training, teacher=Seq2SeqTeacher(teacher, settings), settings=settings)


def _teacher_texts(
    config: Config, teacher: Path, console: Console, train: TextPairBatches, total: int, content: str
) -> EncodedTextPairs:
    """The training rows with what the teacher writes of those that so many steps read."""
    model: Any = load_seq2seq(_plain(config), teacher / "model")
    rows = sorted({int(row) for step in range(total) for row in train.rows(step)})
    writer = TeacherTexts(
        model.eval().to(training_device(config.trainer.accelerator, Ranks())),
        generate_options(config.task.generate),
        config.task.generate.most_per_token,
        config.task.target_length,
        config.trainer.precision,
    )
    said = ProgressLines(console, "the teacher's texts") if config.trainer.progress else None
    return writer.rewritten(train.data, rows, train.tokenizer, f"{teacher.name} {content}", cache_of(config), said)


def _plain(config: Config) -> Config:
    """The config of its plain model."""
    return replace(config, neuron=NeuronSpec(), weights=QuantizerSpec())


def _fresh(config: Config, tokenizer: TextPairTokenizer) -> nn.Module:
    """The backbone's own weights, or random ones."""
    tokens = SpecialTokens(tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.decoder_start)
    build = load_public if config.backbone.path else build_seq2seq
    return build(config, tokenizer.vocab_size, tokens)
