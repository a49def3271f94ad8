"""GLUE metrics as the paper reports them (section 5): in percent, undefined ones counted as 0."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection, PearsonCorrCoef, SpearmanCorrCoef
from torchmetrics.classification import BinaryF1Score, MulticlassAccuracy, MulticlassConfusionMatrix

from spikelm.catalog.metric_names import METRICS, valid_metrics
from spikelm.errors import ConfigError, DataError, TrainingError


class Matthews(MulticlassConfusionMatrix):
    """MCC = (c s - t.p) / sqrt((s^2 - p.p) (s^2 - t.t)), and 0 where that is 0/0.

    torchmetrics' own MCC scores constant binary predictions far from 0 (0.67 for one mistake in five), while
    the paper's 0.0 on CoLA is exactly this case.
    """

    def compute(self) -> Tensor:
        table = self.confmat.double()
        true, predicted, total = table.sum(1), table.sum(0), table.sum()
        above = table.trace() * total - true @ predicted
        below = (total**2 - predicted @ predicted) * (total**2 - true @ true)
        return torch.where(below > 0, above / below.clamp_min(1e-300).sqrt(), 0.0)


def _correlation(metric: type[Metric], sync: bool) -> Metric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spearman warns that it keeps all values: 1500 of them in STS-B
        return metric(sync_on_compute=sync)


def _accuracy(labels: int, sync: bool) -> Metric:
    return MulticlassAccuracy(labels, average="micro", sync_on_compute=sync)


def _f1(labels: int, sync: bool) -> Metric:
    return BinaryF1Score(sync_on_compute=sync)


def _matthews(labels: int, sync: bool) -> Metric:
    return Matthews(labels, sync_on_compute=sync)


def _pearson(labels: int, sync: bool) -> Metric:
    return _correlation(PearsonCorrCoef, sync)


def _spearman(labels: int, sync: bool) -> Metric:
    return _correlation(SpearmanCorrCoef, sync)


#: by name, as catalog/metric_names.py lists them: a metric for so many labels, synchronised over all ranks or not
LABEL_METRICS: dict[str, Callable[[int, bool], Metric]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}


def glue_metrics(names: Sequence[str], num_labels: int, over_ranks: bool = True) -> MetricCollection:
    """Empty metrics by name; num_labels=1 means regression. `over_ranks`: computed from what all ranks have seen."""
    valid = valid_metrics("regression" if num_labels == 1 else "classification", num_labels)
    for name in names:
        if name not in valid:
            raise ConfigError(
                f"metric {name!r} does not fit a task with num_labels={num_labels}",
                f"choose among: {', '.join(valid)}",
            )
    metrics: dict[str, Metric | MetricCollection] = {
        name: LABEL_METRICS[name](num_labels, over_ranks) for name in names
    }
    return MetricCollection(metrics, compute_groups=False)


def update_metrics(metrics: MetricCollection, logits: Tensor, labels: Tensor) -> None:
    """Add one batch: logits (B, num_labels) or (B,), labels (B,) without hidden (negative) ones."""
    if not torch.isfinite(logits).all():
        raise TrainingError("the model's outputs are not finite", "lower the learning rate of the stage (lr)")
    if any("regression" in METRICS[str(name)].tasks for name in metrics):
        # double: float32 sums lose the variance of nearly constant predictions
        metrics.update(logits.detach().double().view(-1), labels.double().view(-1))
        return
    if (labels < 0).any():
        raise DataError("negative labels: GLUE hides those of its test sets", "evaluate on the dev set")
    metrics.update(logits.detach().argmax(-1), labels.long())


def compute_metrics(metrics: MetricCollection) -> dict[str, float]:
    """Percent by name; an undefined correlation (constant predictions) counts as 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "variance close to zero": that is the case counted as 0
        values = {name: 100 * float(value) for name, value in metrics.compute().items()}
    return {name: value if math.isfinite(value) else 0.0 for name, value in values.items()}


def glue_scores(logits: Tensor, labels: Tensor, names: Sequence[str], num_labels: int) -> dict[str, float]:
    """Percent by metric of collected logits and labels."""
    if len(labels) == 0 or len(logits) != len(labels):
        raise DataError(f"{len(logits)} predictions cannot be scored against {len(labels)} labels")
    metrics = glue_metrics(names, num_labels, over_ranks=False)  # all is here already
    update_metrics(metrics, logits, labels)
    return compute_metrics(metrics)


def constant_predictor(
    labels: Tensor, metrics: Sequence[str], num_labels: int, regression: bool = False
) -> dict[str, float]:
    """What a model that has learnt nothing scores: it always answers the most frequent label."""
    if regression:
        return glue_scores(torch.zeros(len(labels)), labels, metrics, 1)
    counts = torch.bincount(labels.long(), minlength=num_labels)
    return glue_scores(counts.expand(len(labels), -1), labels, metrics, num_labels)
