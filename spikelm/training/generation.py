"""Evaluation by generated text: every row of every split decoded once, scored against its reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from spikelm.catalog.quantities import duration
from spikelm.data.batches.by_step import Batch
from spikelm.measure.text_metrics import entity_accuracy, text_metrics

SAMPLES = 8  # kept with the result
SHORT = 10  # tokens that a text may have, however short its source is


@dataclass
class Split:
    """An evaluated split: the suffix of its metrics, and its texts by row."""

    suffix: str
    sources: Sequence[str]
    references: Sequence[str]


class ProgressLines:
    """A line every tenth of the way while texts are generated, which may take longer than the training."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.title = title

    def __call__(self, done: int, total: int) -> None:
        if not done:
            self.started, self.said = time.monotonic(), 0
        elif done * 10 // total > self.said:
            self.said = done * 10 // total
            left = (time.monotonic() - self.started) * (total - done) / done
            line = f"{self.title}: {done} of {total} texts generated{f', {duration(left)} left' if left else ''}"
            self.console.print(line, highlight=False, soft_wrap=True)


class Longest(StoppingCriteria):
    """Ends a text that is too long for its source."""

    def __init__(self, read: Tensor, most_per_token: float) -> None:
        self.most = SHORT + (most_per_token * read).floor().long()

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        most = self.most.repeat_interleave(len(input_ids) // len(self.most))  # beams of a text stand side by side
        return input_ids.shape[1] - 1 >= most.to(input_ids.device)  # the start token is given


def ended(mask: Tensor, most_per_token: float) -> dict[str, Any]:
    """What generate() is given so that no text is too long for its source; nothing where any length will do."""
    return {"stopping_criteria": StoppingCriteriaList([Longest(mask.sum(1), most_per_token)])} if most_per_token else {}


@dataclass
class Generator:
    """Decodes batches with the task's settings and keeps what came out, by split and row."""

    metrics: Sequence[str]
    splits: Sequence[Split]
    options: Mapping[str, Any]  # of transformers' generate()
    decode: Callable[[Sequence[int]], str]
    most_per_token: float = 0.0  # as task.generate has it
    always: bool = False  # at every evaluation, not only at the last
    progress: Callable[[int, int], None] | None = None
    entities: Mapping[str, Collection[str]] = field(default_factory=dict)  # words by kind, if they are known
    texts: list[dict[int, str]] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (source, generated) tokens of the first split
    notes: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Forget what an earlier evaluation generated."""
        self.notes = {}
        self.texts = [{} for _ in self.splits]
        self.lengths = []
        self._tell(0)

    def generate(self, model: Any, batch: Batch, split: int) -> None:
        """Decode a batch of a split."""
        self._decode(model, batch, split)
        self._tell(sum(map(len, self.texts)))

    def again(self, model: Any, batch: Batch) -> None:
        """Keep this batch of the first split in place of all texts: the model is no longer the evaluated one."""
        self.texts, self.lengths = [{} for _ in self.splits], []
        self._decode(model.eval(), {name: tensor.to(model.device) for name, tensor in batch.items()}, 0)

    @torch.no_grad()
    def _decode(self, model: Any, batch: Batch, split: int) -> None:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        ids = model.generate(**inputs, **self.options, **ended(inputs["attention_mask"], self.most_per_token))
        sizes = batch["attention_mask"].sum(1).tolist()
        pad = model.config.pad_token_id
        for row, source, tokens in zip(batch["rows"].tolist(), sizes, ids.tolist(), strict=True):
            self.texts[split][row] = self.decode(tokens)
            if split == 0:
                # the start token is given, not generated; what follows the end is padding
                self.lengths.append((source, max(1, sum(token != pad for token in tokens) - 1)))

    def _tell(self, done: int) -> None:
        if self.progress:
            self.progress(done, -(-sum(len(split.references) for split in self.splits) // _ranks()))

    def scores(self) -> dict[str, float]:
        """The metrics of every split whose rows have all been generated; nothing before that."""
        scores: dict[str, float] = {}
        self.texts = gathered(self.texts)
        for split, texts in zip(self.splits, self.texts, strict=True):
            if len(texts) == len(split.references):
                predictions = [texts[row] for row in range(len(texts))]
                values, notes = text_metrics(self.metrics, predictions, split.references)
                if self.entities:
                    more, how = entity_accuracy(predictions, split.references, self.entities)
                    values, notes = values | more, notes | how
                scores |= {f"{name}{split.suffix}": value for name, value in values.items()}
                # how a score is computed is the same for all splits, how many texts are empty is not
                self.notes |= {
                    f"empty{split.suffix}" if name == "empty" else name: note for name, note in notes.items()
                }
        return scores

    def samples(self) -> list[dict[str, str]]:
        """The first rows of the first split: what was read, what was expected, what was written."""
        split, texts = self.splits[0], self.texts[0]
        rows = sorted(texts)[:SAMPLES]
        return [
            {"source": split.sources[row], "reference": split.references[row], "generated": texts[row]} for row in rows
        ]


def gathered(texts: list[dict[int, str]]) -> list[dict[int, str]]:
    """What all ranks have generated."""
    if _ranks() == 1:
        return texts
    parts: list[Any] = [None] * _ranks()
    dist.all_gather_object(parts, texts)
    return [{row: text for part in parts for row, text in part[index].items()} for index in range(len(texts))]


def _ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
