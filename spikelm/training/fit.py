"""One fit with Lightning: from a module and its batches to trained weights, resumable at any checkpoint."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from rich.console import Console
from torch.utils.data import DataLoader

from spikelm.data.batches import Batch, StepBatches
from spikelm.errors import CheckpointError
from spikelm.schema import TrainerConfig
from spikelm.training.callbacks import FiniteLoss, Log, ProgressLine, Recorder
from spikelm.training.modules import StageModule


def quiet_libraries() -> None:
    """Lightning's and transformers' start-up chatter says nothing about a run."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def last_checkpoint(folder: Path) -> tuple[Path, int] | None:
    """The newest checkpoint and its step."""
    found = sorted(folder.glob("step-*.ckpt"), key=lambda path: int(path.stem.removeprefix("step-")))
    return (found[-1], int(found[-1].stem.removeprefix("step-"))) if found else None


def fit(
    module: StageModule,
    train: StepBatches,
    evaluation: Sequence[Sequence[Batch]],
    config: TrainerConfig,
    folder: Path,
    console: Console,
    title: str,
    log: Log,
    on_resume: Callable[[int], None],
    evaluate_every: int,
    extra: Sequence[L.Callback] = (),
) -> None:
    """Train to the last step, evaluating every `evaluate_every` steps and at the end."""
    resume = last_checkpoint(folder)
    start = resume[1] if resume else 0
    if resume:
        console.print(f"going on from step {start} of {module.total}")
        on_resume(start)
    checkpoint = ModelCheckpoint(
        dirpath=folder,
        filename="step-{step}",
        auto_insert_metric_name=False,
        every_n_train_steps=min(config.checkpoint_every, module.total),
        save_top_k=1,
        enable_version_counter=False,
    )
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    callbacks: list[L.Callback] = [FiniteLoss(50 if on_gpu else 1), Recorder(log, config.log_every), *extra]
    if config.progress:
        callbacks.append(ProgressLine(console, title, module.total))
    trainer = L.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        precision=config.precision,  # type: ignore[arg-type]
        max_steps=module.total,
        max_epochs=1,
        gradient_clip_val=module.stage.clip,
        val_check_interval=min(evaluate_every, module.total),
        check_val_every_n_epoch=None,
        callbacks=[*callbacks, checkpoint],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic="warn",
    )
    loaders: list[Any] = [DataLoader(list(split), batch_size=None) for split in evaluation]  # type: ignore[arg-type]
    _fit(trainer, module, train.loader(start, module.total, config.workers), loaders, resume)
    if not module.scores or module.total % min(evaluate_every, module.total):
        trainer.validate(module, loaders, verbose=False)


def _fit(trainer: L.Trainer, module: StageModule, train: Any, evaluation: Any, resume: Any) -> None:
    path = resume[0] if resume else None
    try:
        trainer.fit(module, train, evaluation, ckpt_path=path, weights_only=True)
    except (EOFError, OSError, RuntimeError) as error:
        if path is None or ("size mismatch" not in str(error) and "PytorchStreamReader" not in str(error)):
            raise
        raise CheckpointError(f"{path} cannot be read: {error}", f"remove {path} and run again") from error
