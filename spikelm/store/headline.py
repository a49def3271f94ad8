"""The number that stands for a run: the one that the paper's table 3 prints for its task."""

from __future__ import annotations

from collections.abc import Mapping

#: the metric that table 3 prints for a task, where it is not the first one
PRINTED = {"mrpc": "f1", "qqp": "f1", "stsb": "spearman"}


def headline_name(task: str, metrics: Mapping[str, object]) -> str:
    """Its name; empty where there are no metrics."""
    printed = PRINTED.get(task.removeprefix("glue/"), "")
    return printed if printed in metrics else next(iter(metrics), "")


def headline(task: str, metrics: Mapping[str, float]) -> float:
    """The number that table 3 prints for a task."""
    return metrics[headline_name(task, metrics)]
