"""One fit with Lightning: from a module and its batches to trained weights, resumable at any checkpoint."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from rich.console import Console
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader

from spikelm.config.settings.running import TrainerConfig
from spikelm.data.batches.by_step import Batch, StepBatches
from spikelm.errors import CheckpointError, DataError
from spikelm.training.callbacks import FiniteLoss, Log, ProgressLine, Recorder
from spikelm.training.checkpoints import Checkpoints, SafeCheckpointIO, history_in, last_checkpoint
from spikelm.training.devices.ranks import Launched, Ranks, tell
from spikelm.training.devices.sharding import Sharded, WholeInEvaluation
from spikelm.training.modules import StageModule

EVALUATED_PARTS = 8  # micro batches that are evaluated at a time: nothing is kept for a backward


def quiet_libraries() -> None:
    """Lightning's and transformers' start-up chatter says nothing about a run."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@dataclass(frozen=True)
class Fit:
    """What is trained and on what; it is evaluated every `evaluate_every` steps and at the end."""

    module: StageModule
    train: StepBatches
    evaluation: Sequence[Sequence[Batch]]  # batches of each split
    evaluate_every: int
    title: str


@dataclass(frozen=True)
class Journal:
    """Where it is written down: the folder of checkpoints, a console, metrics by step.

    A checkpoint keeps what `history` gives, all metrics up to its step; `restore` is handed it back before anything is
    logged, and nothing where a fit starts from the beginning.
    """

    checkpoints: Path
    console: Console
    log: Log
    history: Callable[[], str]
    restore: Callable[[str], None]


def fit(
    work: Fit,
    config: TrainerConfig,
    journal: Journal,
    extra: Sequence[L.Callback] = (),
    ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
) -> None:
    """Train to the last step, from the last checkpoint if there is one; all ranks call it alike."""
    for split in work.evaluation:
        # a rank without batches and without rows would not take part
        if len(split) < ranks.world and max(len(batch["input_ids"]) for batch in split) < ranks.world:
            fix = "trainer.devices=1, more source.dev_rows, or for a language model a smaller task.window"
            raise DataError("fewer rows to evaluate than devices", fix)
    module = work.module
    resume = last_checkpoint(journal.checkpoints, journal.console) if ranks.first else None
    resume = tell(resume) if ranks.world > 1 else resume
    start = resume[1] if resume else 0
    if resume:
        journal.console.print(f"going on from step {start} of {module.total}")
    if ranks.first:
        journal.restore(history_in(resume[0]) if resume else "")  # a run may have ended before its first checkpoint
    evaluate_every = max(1, min(work.evaluate_every, module.total))
    checkpoint_every = max(1, min(config.checkpoint_every, module.total))
    checkpoints = Checkpoints(
        journal.checkpoints, checkpoint_every, evaluate_every, module.total, start, journal.history
    )
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    callbacks: list[L.Callback] = [
        FiniteLoss(50 if on_gpu else 1, checkpoints.may_be_kept),
        Recorder(journal.log, config.log_every),
        *extra,
    ]
    if config.strategy == "fsdp" and ranks.world > 1:
        module.sharded = True
        callbacks.insert(0, WholeInEvaluation())
    if config.progress and ranks.first:
        callbacks.append(ProgressLine(journal.console, work.title, module.total))
    trainer = _trainer(config, module, ranks, evaluate_every, [*callbacks, checkpoints])
    loaders: list[Any] = [
        DataLoader(_evaluated(split, ranks, module.micro_batch), batch_size=None)  # type: ignore[arg-type]
        for split in work.evaluation
    ]
    module.train()  # a loaded model is in eval mode, and Lightning leaves it there: without dropout
    with _attention(config.precision, on_gpu):
        if module.total:  # a model that is used as it is has no steps
            _fit(
                trainer, module, work.train.loader(start, module.total, config.workers, pinned=on_gpu), loaders, resume
            )
        if not module.scores or module.total % evaluate_every:
            trainer.validate(module, loaders, verbose=False)


def _trainer(
    config: TrainerConfig, module: StageModule, ranks: Ranks, evaluate_every: int, callbacks: list[L.Callback]
) -> L.Trainer:
    trainer = L.Trainer(
        accelerator=config.accelerator,
        devices=ranks.local_world,
        num_nodes=ranks.world // ranks.local_world,
        strategy=_strategy(config.strategy, ranks, module.idle_parameters),
        precision=config.precision,  # type: ignore[arg-type]
        max_steps=module.total,
        max_epochs=1,
        gradient_clip_val=module.stage.optimizer.clip,
        val_check_interval=evaluate_every,
        check_val_every_n_epoch=None,
        callbacks=callbacks,
        plugins=[SafeCheckpointIO()],
        enable_checkpointing=False,  # Lightning's own
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic="warn",
        inference_mode=False,  # in it a spike does not know its neuron, and every cached token waits for its levels
    )
    # Lightning asks all ranks at every step whether one was told to stop, and waits for the device; Checkpoints does so
    # without waiting.
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
    # Determinism would also write NaN into every tensor before its kernel does: some 700 passes a step for nothing.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return trainer


def _attention(precision: str, on_gpu: bool) -> AbstractContextManager[Any]:
    """Plain products for attention in bf16 on a CPU: the backward of torch's fused kernel is several times slower."""
    return sdpa_kernel(SDPBackend.MATH) if precision == "bf16-mixed" and not on_gpu else nullcontext()


def _strategy(name: str, ranks: Ranks, idle_parameters: bool) -> Any:
    if ranks.world == 1:
        return "auto"
    if name == "fsdp":
        return Sharded(ranks)
    # Buffers (amplitudes) agree from the start, and sending them at every forward would wait for ranks that have no
    # batch left to evaluate.
    return DDPStrategy(
        cluster_environment=Launched(ranks), broadcast_buffers=False, find_unused_parameters=idle_parameters
    )


def _evaluated(split: Sequence[Batch], ranks: Ranks, micro_batch: int | None) -> list[Batch]:
    """What a rank evaluates: batches of its own, or its rows of each where there are fewer batches than ranks.

    Where training goes in parts memory is short, so no more than a few times their rows are evaluated at a time.
    """
    if len(split) >= ranks.world:
        mine = list(split[ranks.rank :: ranks.world])
    else:
        mine = [{name: tensor[ranks.rank :: ranks.world] for name, tensor in batch.items()} for batch in split]
    most = EVALUATED_PARTS * micro_batch if micro_batch else max(len(batch["input_ids"]) for batch in split)
    return [
        {name: tensor[start : start + most] for name, tensor in batch.items()}
        for batch in mine
        for start in range(0, len(batch["input_ids"]), most)
    ]


def _fit(trainer: L.Trainer, module: StageModule, train: Any, evaluation: Any, resume: Any) -> None:
    path = resume[0] if resume else None
    try:
        trainer.fit(module, train, evaluation, ckpt_path=path, weights_only=True)
    except RuntimeError as error:
        if path is None or "size mismatch" not in str(error):
            raise
        raise CheckpointError(f"{path} is of another model: {error}", f"remove {path} and run again") from error
