"""Lightning modules of students: general distillation without labels, and fine-tuning with a teacher beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.config.settings.distill import DistillConfig
from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import Batch
from spikelm.training.devices.ranks import summed
from spikelm.training.distill.losses import (
    Variances,
    attention_losses,
    direction_loss,
    embedding_loss,
    hidden_losses,
    layer_weights,
    logits_loss,
    perturb,
    relation_losses,
    representation_loss,
    score_losses,
    state_sums,
    weighted,
)
from spikelm.training.distill.projections import Projections
from spikelm.training.modules import INPUTS, GlueModule, PretrainModule, StageModule
from spikelm.training.places import places


class Teacher:
    """A frozen plain model in eval mode. No module of its student: it is not trained, saved or counted.

    With `dropout` it is in train mode, as BiT's is. `projections` are there where the student's are looked at.
    """

    def __init__(self, model: Any, attention: bool = False, dropout: bool = False, projections: bool = False) -> None:
        self.model = model.train(dropout).requires_grad_(False)
        self.attention = attention
        self.projections = Projections(model, rounded=True) if projections else None

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Any:
        device = batch["input_ids"].device
        if self.model.device != device:
            self.model.to(device)
        return self.model(**{name: batch[name] for name in INPUTS}, **wanted(self.attention))


def wanted(attention: bool) -> dict[str, bool]:
    """What a forward pass has to record."""
    return {"output_hidden_states": True, "output_attentions": attention}


def knows_mask(model: Any) -> bool:
    """Whether the states of pads are left out; a student that knows no mask imitates them as well."""
    return bool(getattr(model.config, "mask", True))


def imitated(model: Any, batch: Batch) -> Tensor | None:
    """The places of the tokens whose states are compared: the real ones, or None for all."""
    return places(batch, "token_places") if knows_mask(model) else None


class GeneralModule(StageModule):
    """Loss = mean over the layers of |s - t|^2 / var(t), or as SpikeBERT has it (distill.states.reduction=rows).

    A student made of its teacher has the same embeddings: they are frozen.
    """

    counted: tuple[str, ...] = ("token_places",)

    def __init__(
        self, model: Any, teacher: Teacher, settings: DistillConfig, stage: StageConfig, total: int, seed: int
    ) -> None:
        super().__init__(model, stage, total, seed)
        self.teacher = teacher
        self.variances = Variances()
        self.by_rows = settings.states.reduction == "rows"
        unseen = (model.encoder.norm,) if hasattr(model, "transforms") else (model.embeddings, model.pooler)
        for part in unseen:  # by any loss, or equal in both
            if part is not None:
                part.requires_grad_(False)

    def losses(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """The loss of each layer, and the cosine of the two models' mean states, sentence by sentence."""
        goal = self.teacher(batch)
        output = self.model(**{name: batch[name] for name in INPUTS}, **wanted(False))
        real = imitated(self.model, batch)
        goals = goal.hidden_states[1:]
        spread = self.variances("hidden", goals, real, batch) if self.training and not self.by_rows else None
        layers = hidden_losses(output.hidden_states[1:], goals, real, not self.by_rows, spread)
        mask = batch["attention_mask"] if knows_mask(self.model) else torch.ones_like(batch["attention_mask"])
        means = [(states.hidden_states[-1] * mask[..., None]).sum(1) for states in (output, goal)]
        return layers, F.cosine_similarity(*means)

    def look_ahead(self, parts: Sequence[Batch]) -> None:
        """What the teacher's states vary by over all parts of a step."""
        self.variances.forget()
        if len(parts) > 1 and not self.by_rows:
            goals = ((self.teacher(part).hidden_states[1:], imitated(self.model, part), part) for part in parts)
            self.variances.look_ahead({"hidden": [state_sums(*goal) for goal in goals]})

    def step_loss(self, batch: Batch) -> Tensor:
        layers, rows = self.losses(batch)[0], batch.get("whole_rows", len(batch["input_ids"]))
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
    """Loss = labels' loss + logits' loss + losses of hidden states, attention maps, scores, relations and words,
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
        self.variances = Variances()
        self.counted = ("token_places", "word_places") if settings.rows.noise else ("token_places",)
        looked = {"scores": settings.losses.scores, "relations": settings.losses.relations}
        self.projections = {name: Projections(model, rounded=name == "scores") for name, on in looked.items() if on}

    def step_loss(self, batch: Batch) -> Tensor:
        settings = self.settings
        batch, clean = self.noisy(batch)
        goal = self.teacher(batch)
        output = self.model(**{name: batch[name] for name in INPUTS}, **wanted(settings.losses.attention > 0))
        logits = output.logits.float()
        if self.progress < settings.layers_first:  # from the layers alone
            return self.with_layers(logits.sum() * 0.0, output, goal, batch)
        loss = settings.losses.labels * self.clean_loss(logits, batch, clean)
        if settings.losses.logits:
            answers = logits_loss(logits, goal.logits.float(), settings.logits.temperature, settings.logits.loss)
            rows = batch.get("row_share", 1.0)  # of several devices
            loss = loss + settings.losses.logits * rows * answers
        return loss if settings.layers_first else self.with_layers(loss, output, goal, batch)

    def look_ahead(self, parts: Sequence[Batch]) -> None:
        """What the teacher's states vary by over all parts of a step; rows with noise are looked at without it."""
        self.variances.forget()
        if len(parts) > 1 and self.settings.losses.hidden and self.settings.states.scaled:
            goals = ((self.imitated_states(self.teacher(part)), imitated(self.model, part), part) for part in parts)
            self.variances.look_ahead({"hidden": [state_sums(*goal) for goal in goals]})

    def imitated_states(self, output: Any) -> Sequence[Tensor]:
        """The hidden states that are compared, with the embeddings' output where it is asked for."""
        states: Sequence[Tensor] = output.hidden_states[0 if self.settings.states.embeddings else 1 :]
        return states

    @property
    def progress(self) -> float:
        """The share of the steps that are done."""
        return self.global_step / self.total

    def noisy(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """The batch with the noise asked for, and which of its rows may learn from their label; None: all."""
        settings = self.settings
        clean = batch["labels"] >= 0 if settings.rows.other_tasks else None  # not-a-number is not, either
        if settings.rows.noise:
            words = places(batch, "word_places")
            ids, unchanged = perturb(batch["input_ids"], batch["attention_mask"], settings.rows.noise, words)
            batch = {**batch, "input_ids": ids}
            clean = unchanged if clean is None else clean & unchanged
        return batch, clean

    def with_layers(self, loss: Tensor, output: Any, goal: Any, batch: Batch) -> Tensor:
        """The loss with what is learned from the teacher's layers: its states, maps, words, scores and relations."""
        settings, mask, tokens = self.settings, batch["attention_mask"], batch.get("token_share", 1.0)
        layers = layer_weights(settings, len(output.hidden_states) - 1, self.progress)
        teacher: Any = self.teacher
        if settings.losses.hidden:
            loss = loss + settings.losses.hidden * tokens * self.states_loss(output, goal, batch, layers)
        if settings.losses.attention:
            maps = attention_losses(output.attentions, goal.attentions, places(batch, "token_places"))
            loss = loss + settings.losses.attention * tokens * weighted(maps, layers)
        if settings.losses.words:
            words, goals = (model.get_input_embeddings().weight for model in (self.model, teacher.model))
            loss = loss + settings.losses.words * embedding_loss(words, goals)
        if settings.losses.scores:
            scores = score_losses(self.projections["scores"].scores(), teacher.projections.scores(), mask)
            rows = batch.get("row_share", 1.0)  # a mean over all entries, those of pads too
            loss = loss + settings.losses.scores * rows * self.over_layers(scores, layers)
        if settings.losses.relations:
            ours, theirs = self.projections["relations"].relations(), teacher.projections.relations()
            loss = loss + settings.losses.relations * tokens * torch.stack(relation_losses(ours, theirs, mask)).sum()
        return loss

    def states_loss(self, output: Any, goal: Any, batch: Batch, layers: Sequence[float]) -> Tensor:
        """The loss of the hidden states."""
        settings = self.settings
        ours, theirs = self.imitated_states(output), self.imitated_states(goal)
        if settings.losses.relations:  # BiBERT matches directions here too
            real = batch["attention_mask"][..., None]
            states = [direction_loss(s * real, t * real) for s, t in zip(ours, theirs, strict=True)]
        else:
            tokens = imitated(self.model, batch)
            spread = self.variances("hidden", theirs, tokens, batch) if settings.states.scaled else None
            states = hidden_losses(ours, theirs, tokens, settings.states.scaled, spread)
        if settings.states.reduction == "rows":
            return representation_loss(states, batch.get("whole_rows", len(batch["input_ids"])))
        return self.over_layers(states, layers)

    def over_layers(self, losses: Sequence[Tensor], layers: Sequence[float]) -> Tensor:
        """The sum over the layers, or their weighted mean; the embeddings' share is that of the first layer."""
        if self.settings.states.total:
            return torch.stack(list(losses)).sum()
        return weighted(losses, [*layers[:1], *layers] if len(losses) > len(layers) else layers)

    def clean_loss(self, logits: Tensor, batch: Batch, clean: Tensor | None) -> Tensor:
        """The labels' loss of the rows that have one and were left as they are, as a share of all."""
        if clean is None:
            return self.label_loss(logits, batch)
        labels = torch.where(clean, batch["labels"], 0)  # what other rows have may be no label
        if self.task.kind == "regression":
            each = F.mse_loss(logits.squeeze(-1), labels, reduction="none")
        else:
            each = F.cross_entropy(logits, labels, reduction="none")
        return (each * clean).mean() * batch.get("row_share", 1.0)


class ImitatingPretrainModule(PretrainModule):
    """Loss = MLM + NSP + mean of |s - t|^2 over embeddings and layers + soft cross entropy of NSP, as BiPFT has it."""

    counted: tuple[str, ...] = ("label_places", "token_places")

    def __init__(self, model: nn.Module, teacher: Teacher, stage: StageConfig, total: int, seed: int) -> None:
        super().__init__(model, stage, total, seed)
        self.teacher = teacher

    def step_loss(self, batch: Batch) -> Tensor:
        losses = self.losses(batch, states=True)
        goal = self.teacher(batch)
        real = places(batch, "token_places")
        states = torch.stack(hidden_losses(losses["states"], goal.hidden_states, real, scaled=False))
        order = logits_loss(losses["order"], goal.seq_relationship_logits.float(), 1.0, "soft")
        words, rows = batch.get("label_share", 1.0), batch.get("row_share", 1.0)  # of several devices
        own = losses["mlm_loss"] * words + losses["nsp_loss"] * rows
        return own + states.mean() * batch.get("token_share", 1.0) + order * rows
