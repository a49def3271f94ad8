"""Lightning modules: pretraining (masked language model + next sentence) and GLUE fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import lightning as L
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.optim import Optimizer

from spikelm.config.settings.stages import StageConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import Batch, split_batch, step_seed
from spikelm.measure.metrics import compute_metrics, glue_metrics, update_metrics
from spikelm.training.amplitudes import amplitudes_follow, forget_amplitudes, held_amplitudes
from spikelm.training.devices.ranks import summed
from spikelm.training.devices.sharding import shard
from spikelm.training.optimization import optimizer_and_schedule
from spikelm.training.places import places, rows_at, with_places

FOLLOWED = 10  # steps between amplitudes that follow the weights (stage.amplitudes.follow)
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


class StepBatch(TypedDict):
    """One step's rows of this rank, in the parts that are computed one after another."""

    parts: list[Batch]
    whole: NotRequired[Batch]  # all of them, where something has to be known of them beforehand


class StageModule(L.LightningModule):
    """A model and its stage; a subclass says in `step_loss` what the loss of a batch is.

    Dropout is seeded by step, so a resumed run draws what the whole one drew. A batch that does not fit the device is
    computed in parts of `micro_batch` rows: their gradients are added up before the one step of the optimiser, so a
    step is a step whatever it was made of, in its metrics, its checkpoints and its schedule.
    """

    model: Any  # transformers' classes, spiking or not
    sharded = False  # set by trainer.strategy=fsdp
    idle_parameters = False  # whether some parameter is left out of some steps, which DDP has to be told
    micro_batch: int | None = None  # rows that are computed at a time; None: all of this rank's
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

    def step_loss(self, batch: Batch) -> Tensor:
        """The mean loss of a batch's rows, weighed by the shares that come with them (`shard_batch`)."""
        raise TypeError(f"{type(self).__name__} does not say what its loss is")

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Any:
        """Cut a training batch into its parts: here, on the CPU, where nothing waits for a device."""
        if not self.trainer.training:
            return with_places(batch, self.counted)
        parts = split_batch(batch, self.micro_batch, self.trainer.world_size)
        step = StepBatch(parts=[with_places(part, self.counted) for part in parts])
        if len(parts) > 1 and (self._amplitudes_are_due() or amplitudes_follow(self.model)):
            step["whole"] = with_places(batch, self.counted)
        return step

    def training_step(self, batch: StepBatch, batch_idx: int) -> Tensor:
        """The loss of a step. Of several parts all but the last are gone through backwards here, Lightning's is last.

        DDP expects gradients from the end of this method on: what is added up before is not sent to other ranks.
        """
        *before, last = batch["parts"]
        if self.micro_batch is not None:
            self.optimizers(use_pl_optimizer=False).zero_grad()  # type: ignore[union-attr]
        self.look_ahead(batch["parts"])
        if not before:
            return self.step_loss(last)
        if "whole" in batch:
            with torch.no_grad():
                self.step_loss(batch["whole"])  # amplitudes are those of all rows, not of the first part's
        count = len(batch["parts"])
        with held_amplitudes(self.model):
            done = [self._part_backward(part, count) for part in before]
            return self.step_loss(last) / count + torch.stack(done).sum()

    def look_ahead(self, parts: Sequence[Batch]) -> None:
        """Find out what a loss has to know of all parts before it sees the first; most need nothing."""

    def _part_backward(self, part: Batch, count: int) -> Tensor:
        """Add a part's gradients to those of the parts before it; its loss, of which nothing more is learned."""
        loss = self.step_loss(part) / count
        with torch.autocast(self.device.type, enabled=False):  # a backward runs in the types of its forward
            self.trainer.strategy.backward(loss, None)
        return loss.detach()

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Optimizer) -> None:
        """Lightning asks for it between forward and backward, when gradients of parts may be there already."""
        if self.micro_batch is None:
            optimizer.zero_grad()

    def _amplitudes_are_due(self) -> bool:
        """Whether this step sets amplitudes anew, so that they follow the weights."""
        until = self.stage.amplitudes.follow * self.total
        return 0 < self.global_step <= until and self.global_step % FOLLOWED == 0

    def on_train_batch_start(self, batch: StepBatch, batch_idx: int) -> None:
        seed = step_seed(self.seed, self.global_step, f"dropout {self.global_rank}")
        if self.device.type == "cpu":  # torch's own asks for every backend, with a stack trace for each: 0.4 ms
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        if self._amplitudes_are_due():
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

    def step_loss(self, batch: Batch) -> Tensor:
        loss, _, count = self.sums(batch)
        return loss / count.clamp_min(1) * batch.get("label_share", 1.0)

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

    def step_loss(self, batch: Batch) -> Tensor:
        losses = self.losses(batch)
        words, rows = batch.get("label_share", 1.0), batch.get("row_share", 1.0)  # of several devices
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

    def step_loss(self, batch: Batch) -> Tensor:
        return self.label_loss(self.logits(batch), batch)

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        update_metrics(self.metric_sets[dataloader_idx], self.logits(batch), batch["labels"])  # type: ignore[arg-type]

    def on_validation_epoch_end(self) -> None:
        self.scores = {}
        for suffix, metrics in zip(self.splits.values(), self.metric_sets, strict=True):
            values = compute_metrics(metrics)  # type: ignore[arg-type]
            self.scores |= {f"{name}{suffix}": values[name] for name in self.task.metrics}
            metrics.reset()  # type: ignore[operator]
