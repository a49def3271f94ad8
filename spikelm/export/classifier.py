"""A trained classifier that labels rows of text: exported, or as a run has it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.config.settings.task import TaskConfig
from spikelm.errors import CheckpointError, SpikeLMError
from spikelm.measure.metrics import compute_metrics, glue_metrics, update_metrics

DIGITS = 6  # of a probability or score: more would be noise of the order in which rows are added up


@dataclass(frozen=True)
class Answer:
    """What a classifier says of a row: a label with the probabilities of all, or the score of a regression."""

    label: str = ""
    probabilities: dict[str, float] | None = None
    score: float | None = None

    def line(self, row: int) -> str:
        """As a line of JSON; rows count from 1."""
        said = {"score": self.score} if self.score is not None else {}
        named = {"label": self.label, "probabilities": self.probabilities} if self.label else {}
        return json.dumps({"row": row, **named, **said}, ensure_ascii=False)

    @classmethod
    def of_line(cls, line: str) -> Answer:
        """The answer in such a line."""
        record = json.loads(line)
        return cls(record.get("label", ""), record.get("probabilities"), record.get("score"))


@dataclass(frozen=True)
class Classifier:
    """A model with its tokenizer, and the task that says what its outputs mean."""

    model: Any
    tokenizer: Any
    task: TaskConfig

    @torch.inference_mode()
    def answers(
        self, texts: Sequence[Sequence[str]], batch: int, told: Callable[[int], None] = lambda done: None
    ) -> Iterator[Answer]:
        """An answer to each row of one text or two, in their order; rows of like length run together.

        `told` hears after each batch how many rows are done.
        """
        sides = list(zip(*texts, strict=True))
        encoded = self.tokenizer(*map(list, sides), truncation=True)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        answers: dict[int, Answer] = {}
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            rows = {name: [values[place] for place in places] for name, values in encoded.items()}
            inputs = self.tokenizer.pad(rows, return_tensors="pt").to(self.model.device)
            logits = self.model(**inputs).logits.double().cpu()
            if not torch.isfinite(logits).all():
                raise SpikeLMError("the outputs of the model are not finite", "its weights are damaged: make it again")
            answers.update(zip(places, map(self._answer, logits), strict=True))
            told(len(answers))
        return (answers[place] for place in range(len(texts)))

    def _answer(self, logits: Tensor) -> Answer:
        if self.task.kind == "regression":
            return Answer(score=round(float(logits.squeeze()), DIGITS))
        shares = [round(share, DIGITS) for share in F.softmax(logits, dim=-1).tolist()]
        best = int(logits.argmax())
        return Answer(self.task.labels[best], dict(zip(self.task.labels, shares, strict=True)))


def exported_classifier(folder: Path, task: TaskConfig) -> Classifier:
    """The classifier that spikelm-export wrote into a folder, on the GPU where there is one."""
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        model: Any = AutoModelForSequenceClassification.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{folder} cannot be loaded: {told}", "export the run again: spikelm-export RUN"
        ) from error
    return on_device(model, tokenizer, task)


def on_device(model: Any, tokenizer: Any, task: TaskConfig) -> Classifier:
    """A classifier ready to answer; raises where the model has another number of outputs than the task has labels."""
    outputs, labels = model.config.num_labels, len(task.labels) if task.kind == "classification" else 1
    if outputs != labels:
        raise CheckpointError(f"the model has {outputs} outputs, and {task.name} {labels}", "export the run again")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Classifier(model.eval().to(device), tokenizer, task)


class Scores:
    """The metrics of a task, from answers and labels that come one window after the other."""

    def __init__(self, task: TaskConfig) -> None:
        self.labels = list(task.labels)
        self.rows = 0
        self._metrics = glue_metrics(task.metrics, max(1, len(self.labels)), over_ranks=False)

    def add(self, answers: Sequence[Answer], truth: Sequence[float]) -> None:
        """Add the answers to some rows, and what they should have been."""
        if not self.labels:
            said = torch.tensor([math.nan if one.score is None else one.score for one in answers])
        else:
            chosen = torch.tensor([self.labels.index(one.label) for one in answers])
            said = F.one_hot(chosen, len(self.labels)).double()
        update_metrics(self._metrics, said, torch.tensor(truth))
        self.rows += len(answers)

    def values(self) -> dict[str, float]:
        """Percent by metric, of all rows so far."""
        return compute_metrics(self._metrics)
