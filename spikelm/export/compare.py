"""Is an exported model the trained one? Both on the dev set, and the merge itself in double precision.

Spikes jump: two models that differ by one rounding of 1e-7 can differ by a spike where a membrane lies on its
threshold. So the merge is checked in double precision, where nothing lies there, and the dev set says what single
precision makes of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch, evaluation_batches
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens.cache import encoded_rows
from spikelm.errors import SpikeLMError
from spikelm.export.convert import export
from spikelm.measure.metrics import glue_scores

BATCH = 32
EXACT = 1e-9  # of logits in double precision
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def dev_sets(config: Config, tokenizer: Any) -> Iterator[tuple[str, list[Batch]]]:
    """Each evaluated split of a run's task, by the suffix of its metrics."""
    text, cache = load_rows(config.task, config.source), Path(config.runs_dir) / ".cache"
    for split, suffix in config.task.splits.items():
        rows = encoded_rows(text, split, config.task, tokenizer, config.finetune.max_length, cache)
        yield suffix, evaluation_batches(rows, BATCH)


@torch.no_grad()
def logits_of(model: Any, batches: Sequence[Batch]) -> Tensor:
    """(rows, labels), in the order of the batches."""
    return torch.cat([model(**{name: batch[name] for name in INPUTS}).logits for batch in batches])


def check_merge(model: Any, batch: Batch) -> float:
    """The largest difference of logits in double precision; raises where it is more than rounding."""
    exact = copy.deepcopy(model).double().eval()
    difference = float((logits_of(exact, [batch]) - logits_of(export(exact), [batch])).abs().max())
    if not difference <= EXACT:
        raise SpikeLMError(
            f"the exported model is another one: its logits differ by {difference:.1e} in double precision",
            "please report it with the run's config.yaml",
        )
    return difference


@dataclass
class Comparison:
    """Scores of both models by metric, in how many rows they predict something else, and how far their logits are."""

    trained: dict[str, float] = field(default_factory=dict)
    exported: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    other_predictions: int = 0
    max_difference: float = 0.0
    largest_logit: float = 0.0


def compare(config: Config, sets: Mapping[str, Sequence[Batch]], trained: Any, exported: Any) -> Comparison:
    """Both models on every evaluated split."""
    task = config.task
    labels = len(task.labels) if task.kind == "classification" else 1
    comparison = Comparison()
    for suffix, batches in sets.items():
        truth = torch.cat([batch["labels"] for batch in batches])
        ours, theirs = logits_of(trained, batches), logits_of(exported, batches)
        for scores, logits in ((comparison.trained, ours), (comparison.exported, theirs)):
            percent = glue_scores(logits, truth, task.metrics, labels)
            scores.update({f"{metric}{suffix}": percent[metric] for metric in task.metrics})
        comparison.rows += len(truth)
        if labels > 1:
            comparison.other_predictions += int((ours.argmax(-1) != theirs.argmax(-1)).sum())
        comparison.max_difference = max(comparison.max_difference, float((ours - theirs).abs().max()))
        comparison.largest_logit = max(comparison.largest_logit, float(ours.abs().max()))
    return comparison
