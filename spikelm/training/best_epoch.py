"""Which epoch's model a fine-tuning reports: the last one, the best on dev, or as the released code chooses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lightning as L
from torch import Tensor

from spikelm.catalog.metric_names import lower_is_better
from spikelm.config.settings.schema import Config
from spikelm.config.settings.task import TaskConfig
from spikelm.training.devices.sharding import whole_state

#: the released code goes by the first key of Hugging Face's GLUE metric: accuracy before F1, Pearson before Spearman
HF_ORDER = ("accuracy", "f1", "pearson", "spearman", "matthews")


class BestDev(L.Callback):
    """Keeps the weights and scores of the best evaluation by one metric."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.sign = -1 if lower_is_better(metric) else 1
        self.best = -math.inf  # of sign * metric
        self.step = 0
        self.scores: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        if (value := self.sign * module.scores[self.metric]) > self.best:
            self.best, self.step, self.scores = value, trainer.global_step, dict(module.scores)
            self.weights = {name: tensor.detach().clone() for name, tensor in whole_state(module.model).items()}

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "step": self.step, "scores": self.scores, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.step = state["best"], state["step"]
        self.scores, self.weights = state["scores"], state["weights"]


def select_mode(config: Config) -> str:
    """What `select` comes to; text without labels has no best epoch, a conversion has no epochs: the last is kept."""
    return "last" if config.task.kind in ("pretrain", "general") or config.only_converts else config.select


def best_keeper(config: Config) -> BestDev | None:
    """The callback a config's selection needs, if it needs one."""
    mode = select_mode(config)
    if mode == "last":
        return None
    return BestDev(config.task.metrics[0] if mode == "best_dev" else released_metric(config.task))


def released_metric(task: TaskConfig) -> str:
    """What the released code compares epochs by."""
    return next(name for name in HF_ORDER if name in task.metrics)


def reported_scores(config: Config, best: Mapping[str, float], last: Mapping[str, float]) -> dict[str, float]:
    """The scores of the best epoch; as released, those of further splits (MNLI-mm) are of the last epoch."""
    if select_mode(config) == "best_dev":
        return dict(best)
    first = set(config.task.metrics)  # the names of the first split carry no suffix
    return {name: (best if name in first else last)[name] for name in best}
