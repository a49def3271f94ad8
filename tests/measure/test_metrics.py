"""Metrics against scikit-learn and scipy, and the scores of a model that has learnt nothing."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as oracle

from spikelm.catalog.metric_names import METRICS, valid_metrics
from spikelm.errors import ConfigError, DataError, TrainingError
from spikelm.measure.metrics import (
    LABEL_METRICS,
    compute_metrics,
    constant_predictor,
    glue_metrics,
    glue_scores,
    update_metrics,
)
from spikelm.measure.perplexity import LM_METRICS
from spikelm.measure.text_metrics import TEXT_METRICS

torch.set_num_threads(1)


def labels_of(*counts: int) -> torch.Tensor:
    return torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])


def one_hot(predictions: list[int], num_labels: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(predictions), num_labels).float()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.data())
def test_classification_metrics_agree_with_scikit_learn(num_labels: int, data: st.DataObject) -> None:
    label = st.integers(0, num_labels - 1)
    pairs = data.draw(st.lists(st.tuples(label, label), min_size=1, max_size=40))
    predicted, true = [p for p, _ in pairs], [t for _, t in pairs]
    names = ["accuracy", "matthews"] + (["f1"] if num_labels == 2 else [])
    ours = glue_scores(one_hot(predicted, num_labels), torch.tensor(true), names, num_labels)
    assert ours["accuracy"] == pytest.approx(100 * oracle.accuracy_score(true, predicted), abs=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["matthews"] == pytest.approx(100 * oracle.matthews_corrcoef(true, predicted), abs=1e-4)
    if num_labels == 2:
        assert ours["f1"] == pytest.approx(100 * oracle.f1_score(true, predicted, zero_division=0), abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 20)), min_size=2, max_size=40))
def test_correlations_agree_with_scipy(pairs: list[tuple[int, int]]) -> None:
    predicted, true = [p / 8 for p, _ in pairs], [t / 4 for _, t in pairs]
    ours = glue_scores(torch.tensor(predicted), torch.tensor(true), ["pearson", "spearman"], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "pearson": 100 * stats.pearsonr(predicted, true).statistic,
            "spearman": 100 * stats.spearmanr(predicted, true).statistic,
        }
    for name, value in expected.items():
        assert ours[name] == pytest.approx(0.0 if math.isnan(value) else value, abs=1e-3), name


def test_batches_give_what_the_whole_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    for num_labels, names in ((2, ["accuracy", "f1", "matthews"]), (1, ["pearson", "spearman"])):
        logits = torch.randn(100, num_labels, generator=generator)
        labels = torch.randint(0, max(num_labels, 6) if num_labels == 1 else 2, (100,), generator=generator)
        metrics = glue_metrics(names, num_labels)
        for part in range(0, 100, 32):
            update_metrics(metrics, logits[part : part + 32], labels[part : part + 32])
        assert compute_metrics(metrics) == pytest.approx(glue_scores(logits, labels, names, num_labels))


def test_nearly_constant_predictions_keep_their_correlation() -> None:
    """A model that learns slowly predicts 2.5 +- 1e-4: still an order, which float32 sums would lose."""
    true = torch.linspace(0, 5, 200)
    predicted = 2.5 + 1e-4 * true
    assert glue_scores(predicted, true, ["pearson", "spearman"], 1) == pytest.approx(
        {"pearson": 100, "spearman": 100}, abs=1e-3
    )


@pytest.mark.parametrize(
    ("task", "counts", "expected"),
    [
        ("rte", (146, 131), {"accuracy": 52.71}),
        ("mrpc", (129, 279), {"accuracy": 68.38, "f1": 81.22}),
        ("cola", (322, 721), {"matthews": 0.0}),
        ("sst2", (428, 444), {"accuracy": 50.92}),
        ("qqp", (25545, 14885), {"accuracy": 63.18, "f1": 0.0}),
        ("qnli", (2702, 2761), {"accuracy": 50.54}),
        ("mnli_m", (3479, 3123, 3213), {"accuracy": 35.45}),
        ("mnli_mm", (3463, 3129, 3240), {"accuracy": 35.22}),
    ],
)
def test_constant_predictor_scores_of_the_dev_sets(
    task: str, counts: tuple[int, ...], expected: dict[str, float]
) -> None:
    ours = constant_predictor(labels_of(*counts), list(expected), len(counts))
    assert ours == pytest.approx(expected, abs=0.005), task


def test_constant_predictor_of_a_regression_scores_zero() -> None:
    labels = torch.linspace(0, 5, 50)
    assert constant_predictor(labels, ["pearson", "spearman"], 1, regression=True) == {
        "pearson": 0,
        "spearman": 0,
    }


def test_what_cannot_be_scored_is_named() -> None:
    with pytest.raises(ConfigError, match="f1"):
        glue_metrics(["f1"], 3)
    with pytest.raises(ConfigError, match="pearson"):
        glue_metrics(["pearson"], 2)
    with pytest.raises(ConfigError, match="bleu"):
        glue_metrics(["bleu"], 2)
    with pytest.raises(DataError, match="negative"):
        glue_scores(torch.zeros(3, 2), torch.full((3,), -1), ["accuracy"], 2)
    with pytest.raises(DataError, match="0 labels"):
        glue_scores(torch.zeros(0, 2), torch.zeros(0), ["accuracy"], 2)
    with pytest.raises(TrainingError, match="finite"):
        glue_scores(torch.full((3, 2), math.nan), torch.zeros(3), ["accuracy"], 2)


def test_every_name_has_its_function_and_every_function_its_name() -> None:
    assert set(METRICS) == {*LABEL_METRICS, *TEXT_METRICS, *LM_METRICS}
    assert {name for name, metric in METRICS.items() if "lm" in metric.tasks} == set(LM_METRICS)
    assert {name for name, metric in METRICS.items() if "seq2seq" in metric.tasks} == set(TEXT_METRICS)
    for kind, labels in (("classification", 2), ("classification", 3), ("regression", 1)):
        assert set(glue_metrics(valid_metrics(kind, labels), labels)) == set(valid_metrics(kind, labels))


def test_names_that_a_task_may_ask_for() -> None:
    assert valid_metrics("classification", 2) == ["accuracy", "f1", "matthews"]
    assert valid_metrics("classification", 3) == ["accuracy", "matthews"]
    assert valid_metrics("regression", 0) == ["pearson", "spearman"]
    assert valid_metrics("pretrain", 0) == []
