"""How a fit computes: attention in bf16 on a CPU avoids the kernel whose backward is slow; dropout is on; no fill."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from spikelm.config.compose import load_config
from spikelm.data.batches.by_step import Batch
from spikelm.runs.experiment import run_experiment
from spikelm.training.fit import _attention
from spikelm.training.modules import GlueModule


@pytest.mark.parametrize(
    ("precision", "on_gpu", "plain"),
    [("bf16-mixed", False, True), ("bf16-mixed", True, False), ("32-true", False, False)],
)
def test_attention_in_bf16_on_a_cpu_is_plain_products(precision: str, on_gpu: bool, plain: bool) -> None:
    q, k, v = (torch.randn(2, 2, 8, 4, requires_grad=True) for _ in range(3))
    with _attention(precision, on_gpu), torch.profiler.profile() as profile:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    called = {event.key for event in profile.key_averages()}
    assert any("flash_attention" in name for name in called) != plain


def test_a_loaded_model_is_trained_with_its_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[bool] = set()

    def step(self: GlueModule, batch: Batch) -> torch.Tensor:
        seen.update(part.training for part in self.modules() if isinstance(part, nn.Dropout))
        return self.label_loss(self.logits(batch), batch)

    monkeypatch.setattr(GlueModule, "step_loss", step)
    options = ["scale=smoke", "task=glue/rte", "neuron=ann", f"runs_dir={tmp_path}"]
    run_experiment(load_config(options), Console(quiet=True))
    assert seen == {True}


def test_memory_is_not_filled_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[int] = []

    def step(self: GlueModule, batch: Batch) -> torch.Tensor:
        with torch.profiler.profile() as profile:
            torch.empty(8)
        filled.append(sum(event.count for event in profile.key_averages() if event.key == "aten::fill_"))
        assert torch.are_deterministic_algorithms_enabled()
        return self.label_loss(self.logits(batch), batch)

    monkeypatch.setattr(GlueModule, "step_loss", step)
    run_experiment(
        load_config(["scale=smoke", "task=glue/rte", "neuron=ann", f"runs_dir={tmp_path}"]), Console(quiet=True)
    )
    assert set(filled) == {0}
