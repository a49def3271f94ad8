"""Schedules against transformers' own, weight decay on matrices only."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import get_constant_schedule_with_warmup, get_linear_schedule_with_warmup

from spikelm.config.settings.stages import OptimizerConfig, ScheduleConfig, StageConfig
from spikelm.neurons.psn import PSN
from spikelm.training.optimization import (
    learning_rate,
    optimizer_and_schedule,
    parameter_groups,
    total_steps,
    warmup_steps,
)


@pytest.mark.parametrize("schedule", ["linear", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 7.0])
def test_learning_rate_matches_transformers(schedule: str, warmup: float) -> None:
    stage = StageConfig(steps=40, lr=1e-3, schedule=ScheduleConfig(schedule, warmup))
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    steps = warmup_steps(stage, 40)
    theirs = (
        get_linear_schedule_with_warmup(optimizer, steps, 40)
        if schedule == "linear"
        else get_constant_schedule_with_warmup(optimizer, steps)
    )
    for step in range(40):
        assert learning_rate(stage, 40, step) == pytest.approx(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()


def test_the_released_schedule_at_its_golden_points() -> None:
    released = StageConfig(steps=500_000, lr=2e-4, schedule=ScheduleConfig(warmup=5000))
    assert 2e-4 * learning_rate(released, 500_000, 100_000) == pytest.approx(1.616e-4, rel=1e-3)
    stepped_by_eight = [learning_rate(released, 500_000, 8 * update) for update in (625, 62_500)]
    assert stepped_by_eight == [1.0, 0.0]


def test_steps_or_epochs() -> None:
    assert total_steps(StageConfig(steps=7), 10) == 7
    assert total_steps(StageConfig(epochs=3), 10) == 30


def test_only_matrices_outside_neurons_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), PSN(T=2))
    decayed, plain = parameter_groups(model, 0.01)
    assert [tuple(p.shape) for p in decayed["params"]] == [(3, 3)]
    assert len(plain["params"]) == 1 + 2 + 2
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.01, 0.0)


def test_adagrad_and_the_inverse_root_are_those_of_their_papers() -> None:
    stage = StageConfig(steps=100, optimizer=OptimizerConfig("adagrad"), lr=0.15, schedule=ScheduleConfig("constant"))
    layer = nn.Linear(3, 2)
    optimizer, _ = optimizer_and_schedule(layer, stage, 100)
    before, gradient = layer.weight.detach().clone(), torch.randn(2, 3)
    layer.weight.grad = gradient
    optimizer.step()
    expected = before - 0.15 * gradient / (0.1 + gradient**2).sqrt()
    torch.testing.assert_close(layer.weight.detach(), expected)
    # BERTSUM: lr min(t^-.5, t w^-1.5), whose peak is lr w^-.5
    for rate, warmup in ((0.002, 20000), (0.2, 10000)):
        stage = StageConfig(lr=rate * warmup**-0.5, schedule=ScheduleConfig("inverse_sqrt", warmup))
        for t in (1, 500, warmup, 3 * warmup):
            found = stage.lr * learning_rate(stage, 200000, t)
            assert found == pytest.approx(rate * min(t**-0.5, t * warmup**-1.5))


def test_fused_adamw_takes_the_same_steps() -> None:
    layers = {fused: nn.Linear(3, 2) for fused in (False, True)}
    layers[True].load_state_dict(layers[False].state_dict())
    gradients = torch.randn(5, 2, 3)
    for fused, layer in layers.items():
        stage = StageConfig(steps=5, lr=0.1, optimizer=OptimizerConfig(weight_decay=0.01, fused=fused))
        optimizer, _ = optimizer_and_schedule(layer, stage, 5)
        assert optimizer.defaults["fused"] == fused
        for gradient in gradients:
            layer.weight.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(layers[True].weight, layers[False].weight)
