"""The metrics by name: what a task may ask for in `task.metrics`, checked before anything is trained.

Each is one entry here and one in the table LABEL_METRICS of spikelm/measure/metrics.py, TEXT_METRICS of
text_metrics.py or LM_METRICS of perplexity.py, which names the function that computes it. What
pretraining and general distillation report is theirs alone and not chosen by name, and so is `entity_accuracy`, which
the embedded text pairs report because their makers know every name, trade and town.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric, and the kinds of task it fits; in percent, unless lower is better."""

    title: str
    tasks: tuple[str, ...]
    labels: int | None = None  # it is for tasks with so many labels; None: with any number
    lower: bool = False  # is better


METRICS = {
    "perplexity": Metric("perplexity per token", ("lm",), lower=True),
    "word_perplexity": Metric("perplexity per word", ("lm",), lower=True),
    "bits_per_byte": Metric("bits per byte", ("lm",), lower=True),
    "loss": Metric("loss per token", ("lm",), lower=True),
    "accuracy": Metric("accuracy", ("classification", "lm")),
    "f1": Metric("F1 of the second label", ("classification",), labels=2),
    "matthews": Metric("Matthews correlation", ("classification",)),
    "pearson": Metric("Pearson correlation", ("regression",)),
    "spearman": Metric("Spearman correlation", ("regression",)),
    "rouge1": Metric("ROUGE-1", ("seq2seq",)),
    "rouge2": Metric("ROUGE-2", ("seq2seq",)),
    "rougeL": Metric("ROUGE-L", ("seq2seq",)),
    "rougeLsum": Metric("ROUGE-L of the whole summary", ("seq2seq",)),
    "bleu": Metric("BLEU", ("seq2seq",)),
    "chrf": Metric("chrF", ("seq2seq",)),
    "exact_match": Metric("texts that are right word for word", ("seq2seq",)),
}


def valid_metrics(task_kind: str, labels: int) -> list[str]:
    """The names that a task of a kind with so many labels may ask for."""
    return [name for name, metric in METRICS.items() if task_kind in metric.tasks and metric.labels in (None, labels)]


def lower_is_better(name: str) -> bool:
    """Whether a low value of a metric is a good one."""
    return name in METRICS and METRICS[name].lower
