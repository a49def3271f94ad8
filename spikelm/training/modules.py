"""Lightning modules: pretraining (masked language model + next sentence) and GLUE fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import Batch, step_seed
from spikelm.measure.metrics import compute_metrics, glue_metrics, update_metrics
from spikelm.training.amplitudes import forget_amplitudes
from spikelm.training.devices.ranks import summed
from spikelm.training.devices.sharding import shard
from spikelm.training.optimization import optimizer_and_schedule
from spikelm.training.places import places, rows_at, with_places

FOLLOWED = 10  # steps between amplitudes that follow the weights (stage.amplitudes.follow)
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


class StageModule(L.LightningModule):
    """A model and its stage. Dropout is seeded by step, so a resumed run draws what the whole one drew."""

    model: Any  # transformers' classes, spiking or not
    sharded = False  # set by trainer.strategy=fsdp
    counted: tuple[str, ...] = ()  # the places that its losses read (places.py)

    def __init__(self, model: nn.Module, stage: StageConfig, total: int, seed: int) -> None:
        super().__init__()
        self.model = model
        self.stage = stage
        self.total = total
        self.seed = seed
        self.scores: dict[str, float] = {}  # of the last evaluation
        self.logged_loss = float("nan")  # the last one recorded, over all ranks
        self.gradient_norm: Tensor | None = None  # before clipping; None where torch does not say it

    def configure_model(self) -> None:
        if self.sharded:
            shard(self, self.device_mesh)
            self.sharded = False  # once: an evaluation after the fit comes here again

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        return with_places(batch, self.counted)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        seed = step_seed(self.seed, self.global_step, f"dropout {self.global_rank}")
        if self.device.type == "cpu":  # torch's own asks for every backend, with a stack trace for each: 0.4 ms
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        if 0 < self.global_step <= self.stage.amplitudes.follow * self.total and self.global_step % FOLLOWED == 0:
            forget_amplitudes(self.model)

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """As Lightning does it, but the norm is kept: clipped by an infinite one, a step changes nothing."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not gradient_clip_val or not gradients or any(isinstance(gradient, DTensor) for gradient in gradients):
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
            return
        self.gradient_norm = nn.utils.get_total_norm(gradients)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grads_with_norm_(parameters, gradient_clip_val, self.gradient_norm)

    def configure_optimizers(self) -> Any:
        optimizer, schedule = optimizer_and_schedule(self.model, self.stage, self.total)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class MaskedModule(StageModule):
    """Loss = cross entropy of the masked tokens alone, as RoBERTa is pretrained."""

    counted: tuple[str, ...] = ("label_places",)

    def sums(self, batch: Batch) -> Tensor:
        """The sum of the masked tokens' losses, how many of them are right, and how many there are."""
        chosen = places(batch, "label_places")
        targets = rows_at(batch["labels"], chosen)
        words = rows_at(self.model(**{name: batch[name] for name in INPUTS}).logits, chosen).float()
        right, count = (words.argmax(-1) == targets).sum(), words.new_full((), len(chosen))
        return torch.stack([F.cross_entropy(words, targets, reduction="sum"), right.float(), count])

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, _, count = self.sums(batch)
        return loss / count.clamp_min(1) * batch.get("word_share", 1.0)

    def on_validation_epoch_start(self) -> None:
        self._seen = torch.zeros(3, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._seen += self.sums(batch).double()

    def on_validation_epoch_end(self) -> None:
        loss, right, words = summed(self._seen).tolist()
        self.scores = {"loss": loss / words, "mlm_loss": loss / words, "mlm_accuracy": 100 * right / words}


class PretrainModule(StageModule):
    """Loss = cross entropy of the masked tokens + cross entropy of the next sentence, 1:1."""

    counted: tuple[str, ...] = ("label_places",)

    def losses(self, batch: Batch, states: bool = False) -> dict[str, Any]:
        """Both losses and how much was right; the vocabulary's matmul runs on masked positions only.

        With `states` also the hidden states and the next sentence's logits.
        """
        output = self.model.base_model(**{name: batch[name] for name in INPUTS}, output_hidden_states=states)
        chosen = places(batch, "label_places")
        targets = rows_at(batch["labels"], chosen)
        words = self.model.cls.predictions(rows_at(output.last_hidden_state, chosen))
        order = self.model.cls.seq_relationship(output.pooler_output)
        return {
            "mlm_loss": F.cross_entropy(words.float(), targets, reduction="sum") / max(1, targets.numel()),
            "nsp_loss": F.cross_entropy(order.float(), batch["next_sentence_label"]),
            "mlm_right": (words.argmax(-1) == targets).sum(),
            "nsp_right": (order.argmax(-1) == batch["next_sentence_label"]).sum(),
            "mlm_count": targets.new_full((), len(chosen)),
            **({"states": output.hidden_states, "order": order.float()} if states else {}),
        }

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        losses = self.losses(batch)
        words, rows = batch.get("word_share", 1.0), batch.get("row_share", 1.0)  # of several devices
        return losses["mlm_loss"] * words + losses["nsp_loss"] * rows

    def on_validation_epoch_start(self) -> None:
        self._seen: list[dict[str, Tensor]] = []

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        rows = torch.full((), len(batch["input_ids"]), device=self.device)
        self._seen.append({**self.losses(batch), "rows": rows})

    def on_validation_epoch_end(self) -> None:
        seen = torch.zeros(6, dtype=torch.float64, device=self.device)
        if self._seen:  # few rows may leave a rank without any
            column = {name: torch.stack([part[name] for part in self._seen]).double() for name in self._seen[0]}
            weighed = (column["mlm_loss"] * column["mlm_count"], column["nsp_loss"] * column["rows"])
            counted = (column[name] for name in ("mlm_right", "nsp_right", "mlm_count", "rows"))
            seen = torch.stack([part.sum() for part in (*weighed, *counted)])
        mlm_loss, nsp_loss, mlm_right, nsp_right, words, rows = summed(seen)
        mlm, nsp = float(mlm_loss / words), float(nsp_loss / rows)
        self.scores = {
            "loss": mlm + nsp,
            "mlm_loss": mlm,
            "nsp_loss": nsp,
            "mlm_accuracy": 100 * float(mlm_right / words),
            "nsp_accuracy": 100 * float(nsp_right / rows),
        }


class GlueModule(StageModule):
    """Cross entropy for classification, mean squared error for regression; one metric set per evaluated split."""

    def __init__(self, model: nn.Module, task: TaskConfig, stage: StageConfig, total: int, seed: int) -> None:
        super().__init__(model, stage, total, seed)
        self.task = task
        labels = 1 if task.kind == "regression" else len(task.labels)
        self.splits: Mapping[str, str] = task.splits
        self.metric_sets = nn.ModuleList(glue_metrics(task.metrics, labels) for _ in task.splits)

    def logits(self, batch: Batch) -> Tensor:
        return self.model(**{name: batch[name] for name in INPUTS}).logits.float()

    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        share = batch.get("row_share", 1.0)  # of several devices
        if self.task.kind == "regression":
            return F.mse_loss(logits.squeeze(-1), batch["labels"]) * share
        return F.cross_entropy(logits, batch["labels"]) * share

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self.label_loss(self.logits(batch), batch)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        update_metrics(self.metric_sets[dataloader_idx], self.logits(batch), batch["labels"])  # type: ignore[arg-type]

    def on_validation_epoch_end(self) -> None:
        self.scores = {}
        for suffix, metrics in zip(self.splits.values(), self.metric_sets, strict=True):
            values = compute_metrics(metrics)  # type: ignore[arg-type]
            self.scores |= {f"{name}{suffix}": values[name] for name in self.task.metrics}
            metrics.reset()  # type: ignore[operator]
