"""Evaluation by generated text: every row of every split decoded once, scored against its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from spikelm.data.batches import Batch
from spikelm.measure.text_metrics import text_metrics

SAMPLES = 10  # kept with the result


@dataclass
class Split:
    """An evaluated split: the suffix of its metrics, and its texts by row."""

    suffix: str
    sources: Sequence[str]
    references: Sequence[str]


@dataclass
class Generator:
    """Decodes batches with the task's settings and keeps what came out, by split and row."""

    kind: str  # of the metrics: sum or mt
    splits: Sequence[Split]
    options: Mapping[str, Any]  # of transformers' generate()
    decode: Callable[[Sequence[int]], str]
    always: bool = False  # at every evaluation, not only at the last
    progress: Callable[[int, int], None] | None = None
    texts: list[dict[int, str]] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (source, generated) tokens of the first split
    notes: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Forget what an earlier evaluation generated."""
        self.texts = [{} for _ in self.splits]
        self.lengths = []

    @torch.no_grad()
    def generate(self, model: Any, batch: Batch, split: int) -> None:
        """Decode a batch of a split."""
        ids = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **self.options)
        sizes = batch["attention_mask"].sum(1).tolist()
        pad = model.config.pad_token_id
        for row, source, tokens in zip(batch["rows"].tolist(), sizes, ids.tolist(), strict=True):
            self.texts[split][row] = self.decode(tokens)
            if split == 0:
                # the start token is given, not generated; what follows the end is padding
                self.lengths.append((source, max(1, sum(token != pad for token in tokens) - 1)))
        if self.progress:
            done = sum(map(len, self.texts))
            self.progress(done, sum(len(one.references) for one in self.splits))

    def scores(self) -> dict[str, float]:
        """The metrics of every split whose rows have all been generated; nothing before that."""
        found: dict[str, float] = {}
        for split, texts in zip(self.splits, gathered(self.texts), strict=True):
            if len(texts) == len(split.references):
                predictions = [texts[row] for row in range(len(texts))]
                values, self.notes = text_metrics(self.kind, predictions, split.references)
                found |= {f"{name}{split.suffix}": value for name, value in values.items()}
        return found

    def samples(self) -> list[dict[str, str]]:
        """The first rows of the first split: what was read, what was expected, what was written."""
        split, texts = self.splits[0], self.texts[0]
        rows = sorted(texts)[:SAMPLES]
        return [
            {"source": split.sources[row], "reference": split.references[row], "generated": texts[row]} for row in rows
        ]


def gathered(texts: list[dict[int, str]]) -> list[dict[int, str]]:
    """What all ranks have generated."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return texts
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, texts)
    return [{row: text for part in parts for row, text in part[index].items()} for index in range(len(texts))]
