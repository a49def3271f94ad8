"""Numbers that go wrong and memory that runs out: stopped before a checkpoint is made of it, with place and way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_training import STEPS, Toy, train

from spikelm.config.compose import load_config
from spikelm.errors import TrainingError
from spikelm.training.checkpoints import checkpoints, step_of
from spikelm.training.devices.out_of_memory import out_of_memory


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e12])
def test_a_loss_gone_wrong_names_step_and_place_and_is_not_kept(
    value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Toy.step_loss

    def wrong(self: Toy, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if self.global_step >= 5:
            with torch.no_grad():
                self.model[2].bias.fill_(value if value < 1e13 else 1e38)
        return step(self, batch)

    monkeypatch.setattr(Toy, "step_loss", wrong)
    with pytest.raises(TrainingError) as caught:
        train(tmp_path, every=1)
    assert "at step 6" in caught.value.what
    if value == 1e12:
        assert "the largest output is of 2 " in caught.value.what
    else:
        assert "2" in caught.value.what.split("at step 6")[1], "the last layer"
    assert "lr" in caught.value.fix
    assert max(map(step_of, checkpoints(tmp_path / "checkpoints"))) == 5, "the checkpoint is from before"
    monkeypatch.setattr(Toy, "step_loss", step)
    assert max(row[0] for row in train(tmp_path).rows) == STEPS


def test_a_gradient_that_is_clipped_to_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finite values whose squares are not: torch divides them by infinity, and the weights would never change."""
    made, step = Toy.__init__, Toy.step_loss

    def clipped(self: Toy, at: Any) -> None:
        made(self, at)
        self.stage.optimizer.clip = 1.0

    def steep(self: Toy, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        weight = self.model[0].weight
        return step(self, batch) + 1e25 * (weight - weight.detach()).sum()

    monkeypatch.setattr(Toy, "__init__", clipped)
    monkeypatch.setattr(Toy, "step_loss", steep)
    with pytest.raises(
        TrainingError, match=r"norm of the gradient is inf at step 5, .*largest for 0\.weight \(1e\+25\)"
    ):
        train(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried ..."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lack_of_memory_names_the_settings_that_need_less(error: Exception) -> None:
    config = load_config(["scale=smoke", "task=glue/rte", "T=4"])
    told = out_of_memory(error, config)
    assert told is not None
    for setting in (
        "trainer.micro_batch=8",
        "finetune.batch=8",
        "finetune.max_length=32",
        "T=2",
        "trainer.precision=bf16-mixed",
    ):
        assert setting in told.fix
    assert out_of_memory(ValueError("shapes differ"), config) is None
