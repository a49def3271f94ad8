"""Lightning modules of students: general distillation without labels, and fine-tuning with a teacher beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.data.batches import Batch
from spikelm.schema import DistillConfig, StageConfig, TaskConfig
from spikelm.training.distillation import (
    attention_losses,
    embedding_loss,
    hidden_losses,
    layer_weights,
    logits_loss,
    perturb,
    representation_loss,
    weighted,
)
from spikelm.training.modules import INPUTS, GlueModule, StageModule
from spikelm.training.ranks import summed


class Teacher:
    """A frozen plain model in eval mode. No module of its student: it is not trained, saved or counted."""

    def __init__(self, model: Any, attention: bool = False) -> None:
        self.model = model.eval().requires_grad_(False)
        self.attention = attention

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Any:
        device = batch["input_ids"].device
        if self.model.device != device:
            self.model.to(device)
        return self.model(**{name: batch[name] for name in INPUTS}, **wanted(self.attention))


def wanted(attention: bool) -> dict[str, bool]:
    """What a forward pass has to record."""
    return {"output_hidden_states": True, "output_attentions": attention}


def imitated(model: Any, mask: Tensor) -> Tensor:
    """The tokens whose states are compared: the real ones, or all where the student knows no mask."""
    return mask if getattr(model.config, "mask", True) else torch.ones_like(mask)


class GeneralModule(StageModule):
    """Loss = mean over the layers of |s - t|^2 / var(t), or as SpikeBERT has it (distill.reduction=rows).

    A student made of its teacher has the same embeddings: they are frozen.
    """

    def __init__(
        self, model: Any, teacher: Teacher, settings: DistillConfig, stage: StageConfig, total: int, seed: int
    ) -> None:
        super().__init__(model, stage, total, seed)
        self.teacher = teacher
        self.by_rows = settings.reduction == "rows"
        unseen = (model.encoder.norm,) if hasattr(model, "transforms") else (model.embeddings, model.pooler)
        for part in unseen:  # by any loss, or equal in both
            part.requires_grad_(False)

    def losses(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """The loss of each layer, and the cosine of the two models' mean states, sentence by sentence."""
        goal = self.teacher(batch)
        found = self.model(**{name: batch[name] for name in INPUTS}, **wanted(False))
        mask = imitated(self.model, batch["attention_mask"])
        layers = hidden_losses(found.hidden_states[1:], goal.hidden_states[1:], mask, scaled=not self.by_rows)
        means = [(output.hidden_states[-1] * mask[..., None]).sum(1) for output in (found, goal)]
        return layers, F.cosine_similarity(*means)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        layers, rows = self.losses(batch)[0], len(batch["input_ids"])
        loss = representation_loss(layers, rows) if self.by_rows else torch.stack(layers).mean()
        return loss * batch.get("token_share", 1.0)

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(5, dtype=torch.float64, device=self.device)  # sums over what a rank has seen

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        layers, cosine = self.losses(batch)
        tokens, rows = batch["attention_mask"].sum().double(), float(len(cosine))
        losses = torch.stack([torch.stack(layers).mean(), layers[-1]]).double()
        self._seen += torch.stack([*(losses * tokens), tokens, cosine.double().sum(), torch.full_like(tokens, rows)])

    def on_validation_epoch_end(self) -> None:
        loss, last, tokens, cosine, rows = summed(self._seen).tolist()
        self.scores = {"loss": loss / tokens, "last_loss": last / tokens, "cosine": 100 * cosine / rows}


class StudentModule(GlueModule):
    """Loss = labels' loss + KL on logits + squared errors of hidden states, attention maps and word embeddings,
    each with its weight.
    """

    def __init__(
        self,
        model: nn.Module,
        teacher: Any,
        settings: DistillConfig,
        task: TaskConfig,
        stage: StageConfig,
        total: int,
        seed: int,
    ) -> None:
        super().__init__(model, task, stage, total, seed)
        self.teacher = teacher
        self.settings = settings

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        settings, mask = self.settings, batch["attention_mask"]
        clean = None
        if settings.noise:
            ids, clean = perturb(batch["input_ids"], mask, settings.noise)
            batch = {**batch, "input_ids": ids}
        goal = self.teacher(batch)
        found = self.model(**{name: batch[name] for name in INPUTS}, **wanted(settings.attention > 0))
        logits = found.logits.float()
        rows, tokens = batch.get("row_share", 1.0), batch.get("token_share", 1.0)  # of several devices
        loss = settings.labels * self.clean_loss(logits, batch, clean)
        if settings.logits:
            loss = loss + settings.logits * rows * logits_loss(logits, goal.logits.float(), settings.temperature)
        layers = layer_weights(settings, len(found.hidden_states) - 1, self.global_step / self.total)
        if settings.hidden:
            compared = imitated(self.model, mask)
            states = hidden_losses(found.hidden_states[1:], goal.hidden_states[1:], compared, settings.scaled)
            by_rows = settings.reduction == "rows"
            whole = representation_loss(states, len(mask)) if by_rows else weighted(states, layers)
            loss = loss + settings.hidden * tokens * whole
        if settings.embeddings:
            words, goals = (one.get_input_embeddings().weight for one in (self.model, self.teacher.model))
            loss = loss + settings.embeddings * embedding_loss(words, goals)
        if settings.attention:
            maps = attention_losses(found.attentions, goal.attentions, mask)
            loss = loss + settings.attention * tokens * weighted(maps, layers)
        return loss

    def clean_loss(self, logits: Tensor, batch: Batch, clean: Tensor | None) -> Tensor:
        """The labels' loss of the rows that were left as they are, as a share of all."""
        if clean is None:
            return self.label_loss(logits, batch)
        if not clean.any():
            return logits.sum() * 0.0
        kept = {**batch, "labels": batch["labels"][clean]}
        return self.label_loss(logits[clean], kept) * clean.float().mean()
