"""Is an exported model the trained one? Both on the dev set, and the merge itself in double precision.

Spikes jump: two models that differ by one rounding of 1e-7 can differ by a spike where a membrane lies on its
threshold. So the merge is checked in double precision, where nothing lies there, and the dev set says what single
precision makes of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spikelm.config.schema import Config
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


def compare(config: Config, sets: Mapping[str, Sequence[Batch]], trained: Any, exported: Any) -> dict[str, Any]:
    """Scores of both, rows with another prediction, the largest difference of logits."""
    labels = len(config.task.labels) if config.task.kind == "classification" else 1
    found: dict[str, Any] = {"trained": {}, "exported": {}, "rows": 0, "other_predictions": 0, "max_difference": 0.0}
    scale = 0.0
    for suffix, batches in sets.items():
        truth = torch.cat([batch["labels"] for batch in batches])
        answers = {"trained": logits_of(trained, batches), "exported": logits_of(exported, batches)}
        for name, logits in answers.items():
            scores = glue_scores(logits, truth, config.task.metrics, labels)
            found[name] |= {f"{metric}{suffix}": scores[metric] for metric in config.task.metrics}
        one, other = answers.values()
        found["rows"] += len(truth)
        if labels > 1:
            found["other_predictions"] += int((one.argmax(-1) != other.argmax(-1)).sum())
        found["max_difference"] = max(found["max_difference"], float((one - other).abs().max()))
        scale = max(scale, float(one.abs().max()))
    return {**found, "largest_logit": scale}
