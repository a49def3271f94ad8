"""Memory running out, told with the settings that need less of it."""

from __future__ import annotations

import torch

from spikelm.config.devices import device_count
from spikelm.config.settings.schema import Config
from spikelm.errors import TrainingError
from spikelm.measure.workload import device_share

#: what the allocators of torch say, on a GPU and on a CPU
SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "Cannot allocate memory", "std::bad_alloc")


def out_of_memory(error: BaseException, config: Config) -> TrainingError | None:
    """The error to raise instead, or None for one of another kind."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if not known and not any(sign in str(error) for sign in SIGNS):
        return None
    name = {"pretrain": "pretrain", "general": "general"}.get(config.task.kind, "finetune")
    stage, at_once = config.stage, device_share(config).micro_batch
    less = [f"trainer.micro_batch={at_once // 2} (the same batch in more parts)"] if at_once > 1 else []
    if not config.trainer.activation_checkpointing and not config.norm:
        less.append("trainer.activation_checkpointing=true (the same result)")
    less += [f"{name}.batch={max(1, stage.batch // 2)}", f"{name}.max_length={max(8, stage.max_length // 2)}"]
    if config.time_steps > 1:
        less.append(f"T={config.time_steps // 2}")
    if config.trainer.precision == "32-true":
        less.append("trainer.precision=bf16-mixed")
    less += [f"trainer.devices={2 * device_count(config)} (each holds its part of the batch)", "a smaller backbone"]
    if config.trainer.workers:
        less.append("trainer.workers=0")
    return TrainingError(
        f"out of memory in training {config.task.name} with {name}.batch={stage.batch}, "
        f"{name}.max_length={stage.max_length}, T={config.time_steps}, backbone={config.backbone.name}",
        f"needs less: {', '.join(less)}",
    )
