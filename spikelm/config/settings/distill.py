"""What a spiking or low-bit student starts from and learns from its plain teacher; a plain model ignores all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spikelm.catalog.kinds import LM
from spikelm.config.settings.fields import FINE_TUNING, GENERAL, LEFT_OUT, NO_RUN, PRETRAINING, setting
from spikelm.errors import ConfigError
from spikelm.rules import Rule

STUDENTS = {FINE_TUNING}  # the runs that most of these settings decide
WEIGHT = Rule(least=0)


@dataclass
class StartConfig:
    """The weights that a student starts from."""

    weights: str = setting("pretrained", Rule(choices=("pretrained", "general", "teacher", "previous")), STUDENTS)
    head: str = setting("new", Rule(choices=("new", "teacher")), STUDENTS)  # where pooler and classifier start
    # Time steps of the general run to start from; null: the student's own. The id of that run decides, not this number.
    general_T: int | None = setting(None, Rule(whole=True, least=1, optional=True), NO_RUN)
    frozen_embeddings: bool = setting(False, decides=STUDENTS)  # as in the general stage, where both models share them
    # false: none, as what is imitated has none; from a general run there is none in any case.
    dropout: bool = setting(True, decides=STUDENTS, counts_as={True: LEFT_OUT})


@dataclass
class AskedTeacherConfig:
    """Who is imitated, and how it is asked."""

    model: str = setting("ann", Rule(choices=("ann", "previous")), STUDENTS)
    dropout: bool = setting(False, decides={PRETRAINING, FINE_TUNING})  # the teacher keeps its dropout
    cache: bool = setting(False, decides=STUDENTS)  # keep its outputs on disk (hidden states as float16)


@dataclass
class LossWeights:
    """The weight of each part of the loss; a part of weight 0 is not computed."""

    labels: float = setting(1.0, WEIGHT, STUDENTS)
    logits: float = setting(0.0, WEIGHT, STUDENTS)
    hidden: float = setting(0.0, WEIGHT, STUDENTS)  # squared error of the layers' outputs
    attention: float = setting(0.0, WEIGHT, STUDENTS)  # squared error of the attention maps
    scores: float = setting(0.0, WEIGHT, STUDENTS)  # squared error of the attention scores before the softmax
    relations: float = setting(0.0, WEIGHT, STUDENTS)  # direction matching of the similarities of q, k and v (BiBERT)
    words: float = setting(0.0, WEIGHT, STUDENTS)  # squared error of the two models' word embeddings


@dataclass
class LogitsConfig:
    """How logits are compared."""

    loss: str = setting("kl", Rule(choices=("kl", "mse", "soft")), STUDENTS)  # mse: text pairs; soft: cross entropy
    temperature: float = setting(1.0, Rule(above=0), STUDENTS)


@dataclass
class StatesConfig:
    """How hidden states and attention scores are compared, layer by layer."""

    layers: str = setting(
        "all", Rule(choices=("all", "last", "progressive")), STUDENTS
    )  # progressive: one more at a time
    embeddings: bool = setting(False, decides=STUDENTS)  # compare the embeddings' output too
    scaled: bool = setting(True, decides=STUDENTS)  # divide by the teacher's variance
    total: bool = setting(False, decides=STUDENTS)  # add the layers up; false: take their mean
    # rows: the sum over layers and over the rows of a batch, as SpikeBERT has it; the general stage does so as well.
    reduction: str = setting("mean", Rule(choices=("mean", "rows")), {GENERAL, FINE_TUNING})


@dataclass
class ImitatedRowsConfig:
    """Rows beside the task's own on which the student only imitates."""

    noise: float = setting(0.0, Rule(least=0, below=1), STUDENTS)  # share of tokens replaced in half of the rows
    other_tasks: int = setting(0, Rule(whole=True, least=0), STUDENTS)  # training rows of each other task alike


@dataclass
class DistillConfig:
    """What a student starts from, whom it asks, and what it learns from the answers."""

    name: str = setting("none", decides=NO_RUN)
    start: StartConfig = setting(StartConfig)
    teacher: AskedTeacherConfig = setting(AskedTeacherConfig)
    losses: LossWeights = setting(LossWeights)
    logits: LogitsConfig = setting(LogitsConfig)
    states: StatesConfig = setting(StatesConfig)
    rows: ImitatedRowsConfig = setting(ImitatedRowsConfig)
    # The texts to learn to write: the task's references, or what the teacher writes of each source that is read.
    targets: str = setting(
        "references", Rule(choices=("references", "teacher")), STUDENTS, counts_as={"references": LEFT_OUT}
    )
    # Share of the steps that learn from the layers alone, before the others learn from the logits alone.
    layers_first: float = setting(0.0, Rule(least=0, below=1), STUDENTS)
    # Pretraining starts from the plain pretrained model and imitates it (BiPFT); the teacher's id decides.
    pretrain: bool = setting(False, decides=NO_RUN)

    @property
    def from_teacher(self) -> bool:
        """Whether a teacher is needed at all."""
        return self.imitates or self.start.weights == "teacher" or self.start.head == "teacher"

    @property
    def imitates(self) -> bool:
        """Whether something is learned from the teacher's answers."""
        losses = self.losses
        parts = (losses.logits, losses.hidden, losses.attention, losses.scores, losses.relations, losses.words)
        return any(parts)


def check_distill(config: Any) -> None:
    """Whether what a student is asked to learn can be had together, and on its task."""
    distill: DistillConfig = config.distill
    if config.task.kind == "general" and not config.converted:
        raise ConfigError(
            "task=general_distill makes a spiking student; neuron=ann is its teacher", "choose another neuron"
        )
    _check_cache(distill)
    if config.task.kind == "seq2seq" and config.distills:
        _refuse_for_labels(distill, config.task.name, "seq2seq", {})
    if distill.targets == "teacher":
        _check_targets(config)
    if config.task.kind == LM and config.distills:
        more = {
            "losses.attention": distill.losses.attention,
            "start.head=teacher": distill.start.head == "teacher",
            "start.dropout=false": not distill.start.dropout,
            "teacher.dropout": distill.teacher.dropout,
            "states.total": distill.states.total,
        }
        _refuse_for_labels(distill, config.task.name, "lm", more)
        if config.kind.neuron == "spiking":
            raise ConfigError(f"a {config.kind.title} has no plain form to learn from", "distill=none")
        if not distill.imitates and (distill.start.frozen_embeddings or distill.losses.labels != 1):
            raise ConfigError(
                "distill.start.frozen_embeddings and distill.losses.labels are for a student that imitates",
                "distill=lm",
            )
    if distill.rows.other_tasks and not distill.imitates:
        raise ConfigError(
            "distill.rows.other_tasks asks a teacher that nothing is learned from", "distill.losses.logits=1"
        )
    if distill.states.reduction == "rows" and (distill.states.scaled or distill.states.layers != "all"):
        raise ConfigError(
            "distill.states.reduction=rows is the sum of the plain squared errors of all layers",
            "distill.states.scaled=false distill.states.layers=all",
        )


def _check_targets(config: Any) -> None:
    said = "distill.targets=teacher"
    if config.task.kind != "seq2seq" or not config.kind.seq2seq:
        raise ConfigError(
            f"{said} is for an encoder-decoder on text pairs, not for {config.task.name}", "distill.targets=references"
        )
    if not config.distill.from_teacher:
        raise ConfigError(f"{said}, but nothing is taken from a teacher", "distill=sequence")


def _check_cache(distill: DistillConfig) -> None:
    if not distill.teacher.cache:
        return
    not_kept = {
        "attention maps": distill.losses.attention,
        "scores": distill.losses.scores,
        "relations": distill.losses.relations,
        "word embeddings": distill.losses.words,
        "answers to noisy rows": distill.rows.noise,
        "answers to rows of other tasks": distill.rows.other_tasks,
        "answers with dropout": distill.teacher.dropout,
    }
    if asked := [what for what, wanted in not_kept.items() if wanted]:
        raise ConfigError(
            f"distill.teacher.cache keeps hidden states and logits, no {asked[0]}", "distill.teacher.cache=false"
        )


def _refuse_for_labels(distill: DistillConfig, task: str, own: str, more: Mapping[str, Any]) -> None:
    """Raise where something is asked for that only tasks with labels have; `more` is what this task lacks besides.

    `own` is the option of distillation that is made for the task.
    """
    for_labels = {
        **more,
        "start.weights=general": distill.start.weights == "general",
        "teacher.cache": distill.teacher.cache,
        "losses.scores": distill.losses.scores,
        "losses.relations": distill.losses.relations,
        "losses.words": distill.losses.words,
        "logits.loss=soft": distill.logits.loss == "soft",
        "states.embeddings": distill.states.embeddings,
        "states.reduction=rows": distill.states.reduction != "mean",
        "rows.noise": distill.rows.noise,
        "rows.other_tasks": distill.rows.other_tasks,
        "layers_first": distill.layers_first,
    }
    if asked := [key for key, wanted in for_labels.items() if wanted]:
        raise ConfigError(
            f"distill.{asked[0]} is for tasks with labels, not for {task}",
            "leave it out" if distill.name == own else f"distill={own}, or distill=none",
        )
