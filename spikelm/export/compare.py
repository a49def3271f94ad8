"""Is an exported model the trained one? Both on rows of the run's task, and the merge itself in double precision.

Spikes jump: two models that differ by one rounding of 1e-7 can differ by a spike where a membrane lies on its
threshold. So the merge is checked in double precision, where nothing lies there, and the rows say what single
precision makes of it. A classifier predicts a label for each row; a language model and a model of text pairs predict
each token from those before it in the text.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.catalog.kinds import LABELLED
from spikelm.config.settings.schema import Config
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.errors import SpikeLMError
from spikelm.export.convert import export, round_weights
from spikelm.export.run_data import Texts
from spikelm.measure.generated_text import generate_options
from spikelm.measure.metrics import glue_scores
from spikelm.measure.perplexity import Predicted, lm_scores

EXACT = 1e-9  # of logits in double precision
INPUTS = ("input_ids", "token_type_ids", "attention_mask")
PAIR_INPUTS = ("input_ids", "attention_mask", "decoder_input_ids")
BY_TOKEN = ("perplexity", "loss", "accuracy")  # scores of a text that its tokens alone say


@torch.no_grad()
def batch_logits(model: Any, batch: Batch) -> Tensor:
    """(rows, labels); of a model that predicts tokens (rows, n, pieces)."""
    of_tokens = "labels" in batch and batch["labels"].dim() > 1
    names = [name for name in (PAIR_INPUTS if of_tokens else INPUTS) if name in batch]
    inputs = {name: batch[name] for name in names}
    logits: Tensor = (model(**inputs, use_cache=False) if of_tokens else model(**inputs)).logits
    return logits


def logits_of(model: Any, batches: Sequence[Batch]) -> Tensor:
    """Of all batches, in their order."""
    return torch.cat([batch_logits(model, batch) for batch in batches])


def check_merge(model: Any, batch: Batch, precision: str = "fp32", exact_layers: int = 0) -> float:
    """The largest difference of logits in double precision; raises where it is more than rounding.

    In int8 the model that it is compared with is the trained one with rounded weights. Both have the trained LM head:
    what an int8 head changes is no rounding of weights alone, and is measured on the rows.
    """
    exact = copy.deepcopy(model).double().eval()
    differences = [_difference(exact, export(exact), batch)]
    if precision != "fp32":
        merged = export(exact, "int8", exact_layers)
        round_weights(exact, exact_layers)
        differences.append(_difference(exact, merged, batch))
    if not max(differences) <= EXACT:
        raise SpikeLMError(
            f"the exported model is another one: its logits differ by {max(differences):.1e} in double precision",
            "please report it with the run's config.yaml",
        )
    return max(differences)


def _difference(one: Any, other: Any, batch: Batch) -> float:
    return float((batch_logits(one, batch) - batch_logits(other, batch)).abs().max())


@dataclass
class Comparison:
    """Scores of both models by metric, in how many predictions they differ, and how far their logits are."""

    trained: dict[str, float] = field(default_factory=dict)
    exported: dict[str, float] = field(default_factory=dict)
    rows: int = 0  # or tokens
    other_predictions: int = 0
    max_difference: float = 0.0
    largest_logit: float = 0.0
    texts: list[dict[str, str]] = field(default_factory=list)  # that both models wrote


def compare(
    config: Config, sets: Mapping[str, Sequence[Batch]], trained: Any, exported: Any, texts: Texts | None = None
) -> Comparison:
    """Both models on every set, and on texts that they write."""
    comparison = Comparison()
    for suffix, batches in sets.items():
        if config.task.kind in LABELLED:
            _compare_rows(config.task, suffix, batches, trained, exported, comparison)
        else:
            _compare_tokens(config.task, suffix, batches, trained, exported, comparison)
    if texts is not None:
        _compare_texts(config.task, texts, trained, exported, comparison)
    return comparison


def _compare_rows(
    task: TaskConfig, suffix: str, batches: Sequence[Batch], trained: Any, exported: Any, comparison: Comparison
) -> None:
    labels = len(task.labels) if task.kind == "classification" else 1
    truth = torch.cat([batch["labels"] for batch in batches])
    ours, theirs = logits_of(trained, batches), logits_of(exported, batches)
    for scores, logits in ((comparison.trained, ours), (comparison.exported, theirs)):
        percent = glue_scores(logits, truth, task.metrics, labels)
        scores.update({f"{metric}{suffix}": percent[metric] for metric in task.metrics})
    _count(ours, theirs, labels > 1, comparison)


def _compare_tokens(
    task: TaskConfig, suffix: str, batches: Sequence[Batch], trained: Any, exported: Any, comparison: Comparison
) -> None:
    loss, right, tokens = [0.0, 0.0], [0.0, 0.0], 0
    for batch in batches:
        counted = batch["labels"] != IGNORED
        wanted = batch["labels"][counted]
        both = [batch_logits(model, batch)[counted].float() for model in (trained, exported)]
        for side, logits in enumerate(both):
            loss[side] += float(F.cross_entropy(logits, wanted, reduction="sum"))
            right[side] += float((logits.argmax(-1) == wanted).sum())
        tokens += len(wanted)
        _count(both[0], both[1], True, comparison)
    names = [name for name in task.metrics if name in BY_TOKEN] or ["loss", "accuracy"]
    for side, scores in enumerate((comparison.trained, comparison.exported)):
        predicted = Predicted(loss[side], right[side], tokens, tokens, tokens)
        scores.update({f"{name}{suffix}": value for name, value in lm_scores(predicted, names).items()})


def _compare_texts(task: TaskConfig, texts: Texts, trained: Any, exported: Any, comparison: Comparison) -> None:
    inputs = {name: texts.batch[name] for name in ("input_ids", "attention_mask")}
    options = generate_options(task.generate)
    written = [
        [texts.decode(ids) for ids in model.generate(**inputs, **options).tolist()] for model in (trained, exported)
    ]
    names = ("source", "reference", "trained", "exported")
    for row in zip(texts.sources, texts.references, *written, strict=True):
        comparison.texts.append(dict(zip(names, row, strict=True)))


def _count(ours: Tensor, theirs: Tensor, chosen: bool, comparison: Comparison) -> None:
    """How far logits (rows, labels) are from each other; `chosen` where the largest is what is predicted."""
    comparison.rows += len(ours)
    if chosen:
        comparison.other_predictions += int((ours.argmax(-1) != theirs.argmax(-1)).sum())
    comparison.max_difference = max(comparison.max_difference, float((ours - theirs).abs().max()))
    comparison.largest_logit = max(comparison.largest_logit, float(ours.abs().max()))
