"""Two ranks that share a batch against one process with the whole batch: amplitudes and gradients."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from spikelm.config import trust
from spikelm.models.bert import build_pretraining_model
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.spiking import neurons
from spikelm.training.device_check.comparison import Check, Measured, NotHereError, checked, relative
from spikelm.training.device_check.model_checks import NO_DROPOUT, SHALLOW, VOCAB, Sizes, bert_of, pretraining_batch
from spikelm.training.devices.ranks import Ranks, join, leave

WORLD = 2
PATIENCE = 180  # seconds for two processes to start, meet and take a step
Shared = tuple[Tensor, Tensor]  # the gradients of all parameters, the amplitudes of all neurons
#: The mean over ranks is rounded once more than the mean over a batch.
AMPLITUDES = 1e-5


def two_rank_check(sizes: Sizes, device: torch.device) -> Check:
    """DDP on two devices of this kind: GPUs by NCCL, processes of the CPU by gloo."""

    def compare() -> list[Measured]:
        if device.type == "cuda" and torch.cuda.device_count() < WORLD:
            raise NotHereError("there is one GPU")
        gradients, amplitudes = alone(sizes, device)
        ranks = together(sizes, device)
        return [
            Measured("gradient", max(relative(rank[0], gradients) for rank in ranks), SHALLOW["gradient"]),
            Measured("amplitudes", max(relative(rank[1], amplitudes) for rank in ranks), AMPLITUDES),
            Measured("ranks apart", max(relative(mine, theirs) for mine, theirs in zip(*ranks, strict=True)), 0.0),
        ]

    return checked("ranks", f"two on {device.type}, bi-spike T=4", compare)


def _model(sizes: Sizes, device: torch.device) -> Any:
    torch.manual_seed(0)
    config = bert_of(sizes, "bi-spike T=4", "backbone.layers=2", *NO_DROPOUT)
    return build_pretraining_model(config, VOCAB).to(device).train()


def _shared(model: Any) -> Shared:
    gradients = [item.grad.detach().flatten().cpu() for item in model.parameters() if item.grad is not None]
    elastic = [neuron for neuron in neurons(model) if isinstance(neuron, AmplitudeNeuron)]
    return torch.cat(gradients), torch.cat([neuron.alpha.detach().flatten().cpu() for neuron in elastic])


def alone(sizes: Sizes, device: torch.device) -> Shared:
    """One process with the whole batch."""
    model = _model(sizes, device)
    batch = pretraining_batch(WORLD * sizes.rows, sizes.length, VOCAB)
    model(**{name: tensor.to(device) for name, tensor in batch.items()}).loss.backward()
    return _shared(model)


def together(sizes: Sizes, device: torch.device) -> list[Shared]:
    """What each of two processes has after a step of its own half."""
    context = multiprocessing.get_context("spawn")  # a fork has neither CUDA nor OpenMP
    deadline = time.monotonic() + PATIENCE
    with tempfile.TemporaryDirectory(prefix="spikelm-") as folder:
        pipes, processes = [], []
        for rank in range(WORLD):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (rank, theirs, sizes, device.type, f"file://{folder}/meeting", tuple(sorted(trust.trusted())))
            processes.append(context.Process(target=_work, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        try:
            return [_received(pipe, deadline) for pipe in pipes]
        finally:
            for process in processes:
                process.join(1)
                process.kill()


def _received(pipe: Any, deadline: float) -> Shared:
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        raise TimeoutError(f"a rank said nothing for {PATIENCE} seconds")
    answer = pipe.recv()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    gradients, amplitudes = answer
    return torch.from_numpy(gradients), torch.from_numpy(amplitudes)


def _work(rank: int, pipe: Connection, sizes: Sizes, kind: str, meeting: str, packages: tuple[str, ...]) -> None:
    """One rank's process."""
    warnings.simplefilter("ignore", FutureWarning)  # of DDP, whose arguments are Lightning's as well
    try:
        for package in packages:
            trust.trust(package)
        join(Ranks(rank, WORLD, rank, WORLD), meeting)
        device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
        model = _model(sizes, device)
        shared = DistributedDataParallel(model, device_ids=[rank] if kind == "cuda" else None, broadcast_buffers=False)
        batch = pretraining_batch(WORLD * sizes.rows, sizes.length, VOCAB)
        half = {name: tensor.chunk(WORLD)[rank].to(device) for name, tensor in batch.items()}
        shared(**half).loss.backward()
        pipe.send(tuple(tensor.numpy() for tensor in _shared(model)))
        leave()
    except BaseException as error:
        traceback.print_exc()
        pipe.send(f"rank {rank}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
