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
from spikelm.training.devices.ranks import Ranks
from spikelm.training.fit import _attention, _evaluated
from spikelm.training.modules import GlueModule
from spikelm.training.run_stage import _measured_on


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


def batches_of(*rows: int) -> list[Batch]:
    starts = [sum(rows[:index]) for index in range(len(rows))]
    return [
        {"input_ids": torch.arange(start, start + count)[:, None]} for start, count in zip(starts, rows, strict=True)
    ]


@pytest.mark.parametrize("micro_batch", [None, 1])
@pytest.mark.parametrize(("rows", "world"), [((20, 20, 7), 1), ((20, 20, 7), 2), ((9,), 4)])
def test_ranks_evaluate_every_row_once(rows: tuple[int, ...], world: int, micro_batch: int | None) -> None:
    split = batches_of(*rows)
    shares = [_evaluated(split, Ranks(rank, world, rank, world), micro_batch) for rank in range(world)]
    seen = sorted(int(row) for share in shares for batch in share for row in batch["input_ids"].flatten())
    assert seen == list(range(sum(rows)))
    assert all(shares), "a rank without rows would not take part"
    largest = max(len(batch["input_ids"]) for share in shares for batch in share)
    assert largest <= (8 if micro_batch else 20)


def test_measurement_samples_go_to_a_device_a_few_rows_at_a_time() -> None:
    samples = batches_of(20, 3)
    assert _measured_on(samples, torch.device("cpu")) is samples, "on a CPU they stay as they are"
    parts = _measured_on(samples, torch.device("meta"))
    assert [len(part["input_ids"]) for part in parts] == [8, 8, 4, 3]
    assert {part["input_ids"].device.type for part in parts} == {"meta"}
