"""Optimiser and learning-rate schedule of a stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn
from torch.optim import Adagrad, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from spikelm.config.settings.stages import StageConfig
from spikelm.neurons import Neuron

ACCUMULATED = 0.1  # Adagrad's squared gradients at the start, as the pointer-generator has it


def total_steps(stage: StageConfig, steps_per_epoch: int) -> int:
    """Optimiser steps of the stage."""
    return stage.steps if stage.steps is not None else (stage.epochs or 0) * steps_per_epoch


def warmup_steps(stage: StageConfig, total: int) -> int:
    """warmup below 1 is a share of all steps, else a number of steps."""
    return round(stage.schedule.warmup * total) if stage.schedule.warmup < 1 else int(stage.schedule.warmup)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Matrices decay; biases, norms and the parameters of neurons do not."""
    neurons = {id(p) for module in model.modules() if isinstance(module, Neuron) for p in module.parameters()}
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (decayed if parameter.dim() > 1 and id(parameter) not in neurons else plain).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def learning_rate(stage: StageConfig, total: int, step: int) -> float:
    """Share of the peak at a step: linear warm-up, then linear to zero, constant, half a cosine to zero, or
    sqrt(warm-up / step).

    A cosine changes once an epoch where the stage is counted in epochs.
    The schedule is made for schedule.stretch * total steps and takes schedule.speed of them per update.
    """
    warmup = warmup_steps(stage, total)
    total = round(stage.schedule.stretch * total)
    step *= stage.schedule.speed
    if step < warmup:
        return step / max(1, warmup)
    if stage.schedule.shape == "inverse_sqrt":
        return float((max(1, warmup) / max(1, step)) ** 0.5)
    floor = stage.schedule.floor
    return floor + (1 - floor) * _falling(stage, total - warmup, step - warmup)


def _falling(stage: StageConfig, total: int, step: int) -> float:
    """From 1 behind the warm-up to 0 at the end."""
    if stage.schedule.shape == "constant":
        return 1.0
    if stage.schedule.shape == "cosine":
        done = min(1.0, step / max(1, total))
        return (1 + math.cos(math.pi * (math.floor(done * stage.epochs) / stage.epochs if stage.epochs else done))) / 2
    return max(0.0, (total - step) / max(1, total))


def _share(group: dict, lr: float, belongs: Callable[[nn.Parameter], bool]) -> dict:
    """The parameters of a group that belong, with a learning rate of their own."""
    return {**group, "params": [parameter for parameter in group["params"] if belongs(parameter)], "lr": lr}


def optimizer_and_schedule(model: Any, stage: StageConfig, total: int) -> tuple[Optimizer, LambdaLR]:
    """The stage's optimiser and schedule: AdamW, by default with torch's betas 0.9 and 0.999 and eps 1e-8, or Adagrad.

    An encoder with a rate or warm-up of its own is a group of its own, which for both is an optimiser of its own.
    """
    groups = parameter_groups(model, stage.optimizer.weight_decay)
    stages = [stage] * len(groups)
    if stage.optimizer.encoder_lr or stage.optimizer.encoder_warmup:
        schedule = replace(stage.schedule, warmup=stage.optimizer.encoder_warmup or stage.schedule.warmup)
        apart = replace(stage, lr=stage.optimizer.encoder_lr or stage.lr, schedule=schedule)
        encoder = {id(parameter) for parameter in model.get_encoder().parameters()}
        groups = [
            *(_share(group, stage.lr, lambda parameter: id(parameter) not in encoder) for group in groups),
            *(_share(group, apart.lr, lambda parameter: id(parameter) in encoder) for group in groups),
        ]
        stages = [stage, stage, apart, apart]
    optimizer: Optimizer
    if stage.optimizer.name == "adagrad":
        optimizer = Adagrad(groups, lr=stage.lr, initial_accumulator_value=ACCUMULATED)
    else:
        first, second = stage.optimizer.betas
        optimizer = AdamW(
            groups, lr=stage.lr, betas=(first, second), eps=stage.optimizer.epsilon, fused=stage.optimizer.fused
        )
    return optimizer, LambdaLR(optimizer, [partial(learning_rate, one, total) for one in stages])
