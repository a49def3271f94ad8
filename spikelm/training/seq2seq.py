"""Lightning modules of encoder-decoders: cross entropy, and a student's losses beside it (facts 2.21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.config.distill import DistillConfig
from spikelm.config.stage import StageConfig
from spikelm.config.task import TaskConfig
from spikelm.data.batches.by_step import Batch
from spikelm.training.devices.ranks import summed
from spikelm.training.distill.losses import attention_losses, hidden_losses, layer_weights, logits_loss, weighted
from spikelm.training.generation import Generator
from spikelm.training.modules import StageModule

IGNORED = -100
INPUTS = ("input_ids", "attention_mask", "decoder_input_ids")


class Seq2SeqModule(StageModule):
    """Loss = mean cross entropy of the target's tokens; evaluated by it, and by generated text at the end."""

    def __init__(
        self, model: nn.Module, task: TaskConfig, stage: StageConfig, total: int, seed: int, generator: Generator
    ) -> None:
        super().__init__(model, stage, total, seed)
        self.task = task
        self.generator = generator

    def token_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        output = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False)
        return self.token_loss(output.logits, batch) * batch.get("label_share", 1.0)

    @property
    def last(self) -> bool:
        """Whether training is over: then text is generated, which costs more than all losses before."""
        return self.global_step >= self.total

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.generator.start()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        if dataloader_idx == 0:
            output = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False)
            words = (batch["labels"] != IGNORED).sum()
            self._seen += torch.stack([self.token_loss(output.logits, batch).double() * words, words.double()])
        if self.last or self.generator.always:
            self.generator.generate(self.model, batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        loss, words = summed(self._seen).tolist()
        found = self.generator.scores()
        names = [f"{name}{suffix}" for suffix in self.task.splits.values() for name in self.task.metrics]
        self.scores = {name: found[name] for name in names if name in found} | {"loss": loss / words}


class Seq2SeqStudent(Seq2SeqModule):
    """Cross entropy + KL (or squared error) on logits + squared errors of hidden states and attention maps.

    Hidden states: encoder and decoder; maps: encoder, decoder and cross attention, a mean over each list's layers.
    """

    def __init__(self, *args: Any, teacher: Callable[[Batch], Any], settings: DistillConfig) -> None:
        super().__init__(*args)
        self.teacher = teacher
        self.settings = settings

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        settings = self.settings
        goal = self.teacher(batch)
        found = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False, **recorded(settings))
        words = batch.get("label_share", 1.0)
        loss = settings.losses.labels * words * self.token_loss(found.logits, batch)
        for weight, part, share in self.parts(found, goal, batch):
            loss = loss + weight * part * batch.get(share, 1.0)
        return loss

    def parts(self, found: Any, goal: Any, batch: Batch) -> list[tuple[float, Tensor, str]]:
        """Weight, loss and the share that weighs it on several devices, of what comes from the teacher."""
        settings, target = self.settings, batch["labels"] != IGNORED
        parts: list[tuple[float, Tensor, str]] = []
        if settings.losses.logits:
            ours, theirs = found.logits[target].float(), goal.logits[target].float()
            if settings.logits.loss == "mse":
                parts.append((settings.losses.logits, F.mse_loss(ours, theirs), "label_share"))
            else:
                parts.append(
                    (settings.losses.logits, logits_loss(ours, theirs, settings.logits.temperature), "label_share")
                )
        states = partial(hidden_losses, scaled=settings.states.scaled)
        lists: list[tuple[float, Callable[..., list[Tensor]], str, Tensor, str]] = [
            (settings.losses.hidden, states, "encoder_hidden_states", batch["attention_mask"], "token_share"),
            (settings.losses.hidden, states, "decoder_hidden_states", target, "label_share"),
            (settings.losses.attention, attention_losses, "encoder_attentions", batch["attention_mask"], "token_share"),
            (settings.losses.attention, attention_losses, "decoder_attentions", target, "label_share"),
            (settings.losses.attention, attention_losses, "cross_attentions", target, "label_share"),
        ]
        for weight, losses, name, mask, share in lists:
            if weight:
                # the embeddings, first of the hidden states, are the teacher's at the start and trained like the rest
                layers = losses(found[name], goal[name], mask)
                weights = layer_weights(settings, len(layers), self.global_step / self.total)
                parts.append((weight, weighted(layers, weights), share))
        return parts


class Seq2SeqTeacher:
    """A frozen plain model in eval mode that is asked with the target before it, as the student is."""

    def __init__(self, model: Any, settings: DistillConfig) -> None:
        self.model = model.eval().requires_grad_(False)
        self.settings = settings

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Any:
        if self.model.device != batch["input_ids"].device:
            self.model.to(batch["input_ids"].device)
        return self.model(**{name: batch[name] for name in INPUTS}, use_cache=False, **recorded(self.settings))


def recorded(settings: DistillConfig) -> Mapping[str, bool]:
    """What a forward pass has to keep for the losses asked for."""
    return {"output_hidden_states": bool(settings.losses.hidden), "output_attentions": bool(settings.losses.attention)}
