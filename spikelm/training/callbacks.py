"""Around a fit: metrics to disk and tracker, a progress bar, and an early stop when numbers go wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, cast

import lightning as L
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from spikelm.catalog.quantities import duration
from spikelm.errors import TrainingError
from spikelm.neurons import Neuron
from spikelm.training.devices.ranks import summed
from spikelm.training.modules import StageModule

EXPLODED = 1e6  # times the first loss: nothing is learned any more
SILENCE = 20.0  # seconds without a line, where nobody sees a bar
PATIENCE = 5  # looks in a row at a gradient whose norm is not finite: mixed precision may have one now and then
Log = Callable[[int, dict[str, float]], None]


class Recorder(L.Callback):
    """Hands training loss, learning rate and evaluation scores to `log`."""

    def __init__(self, log: Log, every: int) -> None:
        self.record = log
        self.every = every

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if step % self.every == 0 or step == module.total:
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            module.logged_loss = float(summed(outputs["loss"]) / trainer.world_size)
            self.record(step, {"train/loss": module.logged_loss, "train/lr": rate})

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        self.record(trainer.global_step, {f"dev/{name}": value for name, value in module.scores.items()})


class ProgressLine(L.Callback):
    """A bar on a terminal; elsewhere a line after the first step, at every tenth of the way, and now and then."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self.console = console
        self.title = title
        self.total = total
        self.bar: Progress | None = None
        self.tenths = 0  # of the way, told
        self.started = self.told = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        self.started, self.first = time.monotonic(), trainer.global_step
        self.tenths = self.first * 10 // self.total
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self.bar = Progress(
                *columns, TimeRemainingColumn(), TextColumn("{task.fields[loss]}"), console=self.console
            )
            self.task = self.bar.add_task(self.title, total=self.total, completed=self.first, loss="")
            self.bar.start()

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if self.bar is not None:
            if step % 10 == 0:
                self.bar.update(self.task, loss=f"loss {_loss(module, outputs):.3f}")
            self.bar.update(self.task, completed=step)
        elif self._due(step):
            line = f"{self.title}: step {step}/{self.total}, loss {_loss(module, outputs):.3f}"
            if (done := step - self.first) > 1:  # the first step takes longer than others, and tells nothing of them
                pace = (time.monotonic() - self.started) / done
                line += f", {pace * 1e3:.0f} ms per step"
                line += f", {duration(pace * (self.total - step))} left" if step < self.total else ""
            self.console.print(line, highlight=False)

    def _due(self, step: int) -> bool:
        """Whether a line is to be printed; the longer it takes, the longer the time between two of them."""
        now, tenths = time.monotonic(), step * 10 // self.total
        silence = max(SILENCE, (now - self.started) / 20)
        if step > self.first + 1 and tenths == self.tenths and now - self.told < silence:
            return False
        self.tenths, self.told = tenths, now
        return True

    def on_train_end(self, trainer: L.Trainer, module: Any) -> None:
        self.stop()

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        self.stop()

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _loss(module: Any, outputs: Any) -> float:
    """This step's loss; on a GPU, where a look waits for the device, and with several devices, of which each knows
    only its part, the last one that was recorded.
    """
    alone = module.trainer.world_size == 1 and module.device.type == "cpu"
    return float(outputs["loss"]) if alone else module.logged_loss


class FiniteLoss(L.Callback):
    """Stops as soon as the loss explodes or is not finite, before a checkpoint is made of it, and names the place."""

    def __init__(self, every: int, checkpointed: Callable[[int], bool] = lambda step: False) -> None:
        self.every = every
        self.checkpointed = checkpointed
        self.first: float | None = None
        self.lost = 0  # looks in a row at an infinite gradient

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        # On a GPU every look waits for the device, so it is taken now and then only.
        if step % self.every and self.first is not None and not self.checkpointed(step):
            return
        loss = float(outputs["loss"])
        self.first = loss if self.first is None else self.first
        if not math.isfinite(loss) or loss > EXPLODED * max(1.0, self.first):
            raise TrainingError(
                f"the loss is {loss:g} at step {step}: {blame(module, batch['parts'][0])}",
                "lower the learning rate (finetune.lr or pretrain.lr), or set clip=1.0 for the stage; "
                "the last checkpoint is from before, force=true starts again",
            )
        norm = module.gradient_norm
        self.lost = 0 if norm is None or math.isfinite(float(norm)) else self.lost + 1
        if self.lost >= PATIENCE:
            raise TrainingError(
                f"the norm of the gradient is {float(norm):g} at step {step}, so that clipped steps change nothing: "
                f"it is largest for {_steepest(module, batch['parts'][0])}",
                "lower the learning rate, look at that module (a norm with a tiny eps?), or train with clip=null",
            )


def blame(module: StageModule, batch: dict[str, Tensor]) -> str:
    """Where numbers first go wrong: a parameter, or the first module of a forward pass with a bad output."""
    for name, parameter in module.model.named_parameters():
        if not torch.isfinite(parameter).all():
            return f"parameter {name} is not finite"
    places: list[str] = []

    def watch(child: nn.Module, args: Any, output: Any, name: str) -> None:
        tensor = output if isinstance(output, Tensor) else next(iter(getattr(output, "values", list)()), None)
        if not places and isinstance(tensor, Tensor) and not torch.isfinite(tensor).all():
            places.append(child.site if isinstance(child, Neuron) else name)

    _watched(module, batch, watch)
    return (
        f"first seen at {places[0]}" if places else f"all is finite, the largest output is of {_largest(module, batch)}"
    )


def _largest(module: StageModule, batch: dict[str, Tensor]) -> str:
    """The module of a forward pass whose output is the largest, and how large."""
    sizes: dict[str, float] = {}

    def look(child: nn.Module, args: Any, output: Any, name: str) -> None:
        if isinstance(output, Tensor) and output.numel():
            sizes[child.site if isinstance(child, Neuron) else name] = float(output.detach().abs().max())

    _watched(module, batch, look)
    place = max(sizes, key=lambda name: sizes[name]) if sizes else "no module"
    return f"{place} ({sizes.get(place, 0):.3g})"


def _steepest(module: StageModule, batch: dict[str, Tensor]) -> str:
    """The parameter with the largest gradient of a step, and how large; the last step's are clipped to nothing."""
    module.zero_grad()
    cast(Tensor, module.step_loss(batch)).backward()
    sizes = {name: float(p.grad.abs().max()) for name, p in module.model.named_parameters() if p.grad is not None}
    place = max(sizes, key=lambda name: sizes[name]) if sizes else "no parameter"
    return f"{place} ({sizes.get(place, 0):.3g})"


def _watched(module: StageModule, batch: dict[str, Tensor], look: Callable[..., None]) -> None:
    """A forward pass with `look` at every module's output."""
    hooks = [
        child.register_forward_hook(lambda m, a, o, name=name: look(m, a, o, name))
        for name, child in module.model.named_modules()
    ]
    try:
        with torch.no_grad():
            module.step_loss(batch)
    finally:
        for hook in hooks:
            hook.remove()
