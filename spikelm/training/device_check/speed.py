"""Training steps of a plain BERT and of spiking ones: tokens per second, ratios, and memory against its estimate."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.measure.workload import trained_parameters, training_memory_gb
from spikelm.models.bert import build_pretraining_model
from spikelm.neurons.kernels.compiled import can_compile
from spikelm.training.device_check.comparison import Check, Measured, NotHereError, checked
from spikelm.training.device_check.model_checks import SYSTEMS, Sizes, bert_of, pretraining_batch
from spikelm.training.devices.acceleration import accelerated

#: The estimate may be this far from what torch allocated, either way.
ESTIMATE = 0.15
MASKED = 0.15  # of the tokens of a row
WARM_UP = 3  # steps: the first sets amplitudes, compiles and lets the optimiser make its moments


@dataclass(frozen=True)
class Setting:
    """How a step is computed: names of the config."""

    precision: str
    matmul: str
    compile: str

    @property
    def name(self) -> str:
        number = "bf16" if self.precision == "bf16-mixed" else {"highest": "fp32", "high": "TF32"}[self.matmul]
        return f"{number}, {'compiled neurons' if self.compile == 'neurons' else 'eager'}"


@dataclass(frozen=True)
class Speed:
    """One system under one setting; memory is None where the device does not account it."""

    setting: str
    system: str
    rows: int
    length: int
    tokens_per_second: float
    times_plain: float  # how many plain steps one step takes
    memory_gb: float | None
    estimated_gb: float | None


EAGER = Setting("32-true", "highest", "off")
ON_GPU = (EAGER, Setting("32-true", "high", "neurons"), Setting("bf16-mixed", "highest", "neurons"))


def settings_for(device: torch.device) -> list[Setting]:
    """Those that mean something on the device and can run here."""
    if device.type != "cuda":
        return [EAGER]
    return [setting for setting in ON_GPU if setting.compile == "off" or can_compile("cuda")]


def speeds(sizes: Sizes, device: torch.device, repeats: int) -> Iterator[Speed]:
    """Every system under every setting; fewer rows for all of them where the largest does not fit."""
    for setting in settings_for(device):
        rows = sizes.rows
        while True:
            try:
                yield from _timed(sizes, setting, device, repeats, rows)
                break
            except torch.OutOfMemoryError:
                if rows == 1:
                    raise
                rows //= 2
            gc.collect()
            torch.cuda.empty_cache()


def _timed(sizes: Sizes, setting: Setting, device: torch.device, repeats: int, rows: int) -> list[Speed]:
    """The systems in turns, so that a slow moment of the machine hits all alike."""
    with contextlib.ExitStack() as undo:
        undo.enter_context(_matmul(setting.matmul))
        trained = {system: _Trained(sizes, system, setting, device, rows, undo) for system in SYSTEMS}
        seconds: dict[str, list[float]] = {system: [] for system in SYSTEMS}
        for _ in range(repeats):
            for system, training in trained.items():
                seconds[system].append(training.timed_step())
    plain = seconds[next(iter(SYSTEMS))]
    return [
        Speed(
            setting=setting.name,
            system=system,
            rows=rows,
            length=sizes.length,
            tokens_per_second=rows * sizes.length / statistics.median(seconds[system]),
            times_plain=statistics.median(ours / theirs for ours, theirs in zip(seconds[system], plain, strict=True)),
            memory_gb=training.memory_gb,
            estimated_gb=training.estimated_gb,
        )
        for system, training in trained.items()
    ]


class _Trained:
    """A model with its optimiser and a batch, after its first steps, whose memory was measured."""

    def __init__(
        self,
        sizes: Sizes,
        system: str,
        setting: Setting,
        device: torch.device,
        rows: int,
        undo: contextlib.ExitStack,
    ) -> None:
        config = bert_of(
            sizes,
            system,
            f"trainer.precision={setting.precision}",
            f"trainer.matmul={setting.matmul}",
            f"trainer.compile={setting.compile}",
        )
        torch.manual_seed(0)
        self.device, self.bf16 = device, setting.precision == "bf16-mixed"
        before = _allocated(device)
        self.model: Any = build_pretraining_model(config, config.backbone.vocab).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        drawn = pretraining_batch(rows, sizes.length, config.backbone.vocab)
        self.batch = {name: tensor.to(device) for name, tensor in drawn.items()}
        undo.enter_context(accelerated(self.model, config.trainer))
        for _ in range(WARM_UP):
            self.timed_step()
        self.memory_gb = None if before is None else (torch.cuda.max_memory_allocated(device) - before) / 1e9
        parameters = trained_parameters(config)
        self.estimated_gb = None if parameters is None else training_memory_gb(config, parameters, rows)

    def timed_step(self) -> float:
        """Seconds of one step of the optimiser."""
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self._loss()
        loss.backward()
        self.optimizer.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - started

    def _loss(self) -> Tensor:
        """As pretraining computes it: the matmul of the vocabulary sees the masked tokens only."""
        output = self.model.base_model(input_ids=self.batch["input_ids"])
        masked = max(1, round(MASKED * self.batch["labels"].shape[1]))
        words = self.model.cls.predictions(output.last_hidden_state[:, :masked]).float()
        order = self.model.cls.seq_relationship(output.pooler_output).float()
        of_words = F.cross_entropy(words.flatten(0, 1), self.batch["labels"][:, :masked].flatten())
        return of_words + F.cross_entropy(order, self.batch["next_sentence_label"])


def _allocated(device: torch.device) -> int | None:
    """Bytes that are allocated now, from which the peak is counted anew; None where nobody counts."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


@contextlib.contextmanager
def _matmul(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def memory_checks(measured: list[Speed]) -> Iterator[Check]:
    """The estimate of each step against what it took."""
    for speed in measured:
        yield checked("memory", f"{speed.system}, {speed.setting}", partial(_memory, speed))


def _memory(speed: Speed) -> list[Measured]:
    if speed.memory_gb is None or speed.estimated_gb is None:
        raise NotHereError("memory is accounted on a GPU only")
    off = abs(speed.estimated_gb / speed.memory_gb - 1)
    return [Measured("estimate off", off, ESTIMATE), Measured("GB", speed.memory_gb)]
