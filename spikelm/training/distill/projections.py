"""Queries, keys and values of a forward pass, for losses on what attention computes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from spikelm.spiking.sites import BERT
from spikelm.training.distill.losses import similarity

PARTS = ("query", "key", "value")


class Projections:
    """Keeps the outputs of a BERT's query, key and value linears, from one forward pass to `take`.

    `rounded`: after the neurons at these outputs, as the scores see them; else the real-valued projections.
    """

    def __init__(self, model: Any, rounded: bool) -> None:
        self._kept: dict[tuple[int, str], Tensor] = {}
        base = model.base_model
        self.steps = int(getattr(base, "time_steps", 1))
        self.attention = [block.attention.self for block in base.get_submodule(BERT.prefix)]
        for layer, attention in enumerate(self.attention):
            for part in PARTS:
                getattr(attention, part).register_forward_hook(self._keeper(layer, part), prepend=not rounded)

    def _keeper(self, layer: int, part: str) -> Any:
        def keep(module: Any, args: tuple, output: Tensor) -> None:
            self._kept[layer, part] = output

        return keep

    def take(self, part: str) -> list[Tensor]:
        """One part of every layer as (T*B, heads, n, d); it is kept no longer."""
        return [
            self._kept.pop((layer, part)).float().unflatten(-1, (-1, attention.attention_head_size)).transpose(1, 2)
            for layer, attention in enumerate(self.attention)
        ]

    def scores(self) -> list[Tensor]:
        """Attention scores of every layer (B, heads, n, n), without the mask, mean over the time steps."""
        products = [similarity(query, key) for query, key in zip(self.take("query"), self.take("key"), strict=True)]
        return [self._mean(scores) for scores in products]

    def relations(self) -> list[Tensor]:
        """Real-valued queries, keys and values of every layer (B, heads, n, d), mean over the time steps."""
        return [self._mean(part) for name in PARTS for part in self.take(name)]

    def _mean(self, x: Tensor) -> Tensor:
        return x if self.steps == 1 else x.unflatten(0, (self.steps, -1)).mean(0)
