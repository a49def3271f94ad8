"""Causal language modelling: the module that SpikeGPT and GPT-2 are pretrained with."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.data.batches.by_step import Batch
from spikelm.training.devices.ranks import summed
from spikelm.training.modules import StageModule
from spikelm.training.places import places, rows_at


def next_token_losses(logits: Tensor, ids: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over the real tokens but the first of -log p(token | those before), and how many are the likeliest.

    `before` are the places of the tokens that a real one follows.
    """
    predicted, wanted = rows_at(logits, before).float(), rows_at(ids, before + 1)
    return F.cross_entropy(predicted, wanted, reduction="sum"), (predicted.argmax(-1) == wanted).sum()


def max_logit_loss(logits: Tensor, weight: float) -> Tensor:
    """(weight / 2) mean over tokens of the largest logit's square: RWKV's pull on logits that grow."""
    return weight / 2 * logits.float().amax(-1).square().mean()


class CausalModule(StageModule):
    """Loss = mean cross entropy of the next token (+ a small weight on the largest logits, of RWKV)."""

    counted: tuple[str, ...] = ("next_places",)

    def logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False
        ).logits
        return logits

    def step_loss(self, batch: Batch) -> Tensor:
        logits = self.logits(batch)
        before = places(batch, "next_places")
        loss = next_token_losses(logits, batch["input_ids"], before)[0] / max(1, len(before))
        if pull := getattr(self.model.config, "max_logit_l2", 0.0):
            loss = loss + max_logit_loss(logits, pull)
        return loss * batch.get("token_share", 1.0)

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(3, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        logits = self.logits(batch)
        before = places(batch, "next_places")
        total, right = next_token_losses(logits, batch["input_ids"], before)
        self._seen += torch.stack([total.double(), right.double(), total.new_full((), len(before)).double()])

    def on_validation_epoch_end(self) -> None:
        total, right, tokens = summed(self._seen).tolist()
        loss = total / tokens
        self.scores = {"loss": loss, "perplexity": math.exp(min(loss, 700)), "accuracy": 100 * right / tokens}
