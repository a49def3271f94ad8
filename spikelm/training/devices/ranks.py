"""The processes that train one model together: who they are, how they meet, what they add up."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import ClusterEnvironment, SLURMEnvironment
from torch import Tensor

from spikelm.errors import ConfigError

#: for what one rank does while the others wait (tokenising a corpus, waiting for a lock); a crash is seen otherwise
PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class Ranks:
    """This process among those of a training: `rank` of `world`, `local_rank` of `local_world` on its machine."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes, logs and measures."""
        return self.rank == 0


def launched_ranks(env: Mapping[str, str] = os.environ) -> Ranks:
    """What torchrun (WORLD_SIZE) or srun (SLURM_STEP_NUM_TASKS) says of this process; one of one without them."""
    if int(env.get("WORLD_SIZE", 1)) > 1 and "RANK" in env:
        world, rank = int(env["WORLD_SIZE"]), int(env["RANK"])
        return Ranks(rank, world, int(env.get("LOCAL_RANK", rank)), int(env.get("LOCAL_WORLD_SIZE", world)))
    # Set in the tasks of a step only: a batch script that calls us without srun is one process.
    if (tasks := int(env.get("SLURM_STEP_NUM_TASKS", 1))) > 1 and "SLURM_PROCID" in env:
        nodes = int(env.get("SLURM_STEP_NUM_NODES", 1))
        return Ranks(int(env["SLURM_PROCID"]), tasks, int(env.get("SLURM_LOCALID", 0)), tasks // nodes)
    return Ranks()


_control: Any = None  # group for what may take long: no tensors of a device


def join(ranks: Ranks, meeting: str) -> None:
    """Become one of the ranks, who find each other at `meeting` (a URL of torch's init_process_group)."""
    global _control
    if meeting == "env://" and "MASTER_ADDR" not in os.environ:
        slurm = SLURMEnvironment(auto_requeue=False)
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = slurm.main_address, str(slurm.main_port)
    on_gpu = torch.cuda.is_available()
    if on_gpu and ranks.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(ranks.local_rank)
    # Amplitudes are set before the model moves to its device, so tensors on the CPU must be summed as well.
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, init_method=meeting, rank=ranks.rank, world_size=ranks.world)
    _control = dist.new_group(backend="gloo", timeout=PATIENCE)
    # Each process would take all cores of its machine.
    torch.set_num_threads(max(1, torch.get_num_threads() // ranks.local_world))


def training_device(accelerator: str, ranks: Ranks) -> torch.device:
    """Where this rank trains: its own GPU, else the CPU (Lightning moves a model to the chips of other makers)."""
    if accelerator in ("cpu", "mps") or not torch.cuda.is_available():
        return torch.device("cpu")
    if ranks.local_rank >= (gpus := torch.cuda.device_count()):
        raise ConfigError(
            f"rank {ranks.rank} is the {ranks.local_rank + 1}. of its node, but sees {gpus} of its GPUs",
            "let every process see all of its node's GPUs (srun --gpus-per-node, not --gpus-per-task)",
        )
    return torch.device("cuda", ranks.local_rank)


def on_device(batch: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The batch's tensors on a device."""
    return {name: tensor.to(device) for name, tensor in batch.items()}


def leave() -> None:
    """No longer one of the ranks."""
    global _control
    _control = None
    if dist.is_initialized():
        dist.destroy_process_group()


def tell(message: Any = None) -> Any:
    """What the first rank says, on every rank; the others' argument is not looked at."""
    box = [message]
    dist.broadcast_object_list(box, src=0, group=_control)
    return box[0]


@contextlib.contextmanager
def first_rank_first(ranks: Ranks) -> Iterator[None]:
    """The first rank through the block before the others: what it leaves in a cache they find there."""
    if ranks.world > 1 and not ranks.first:
        dist.barrier(group=_control)
    yield
    if ranks.world > 1 and ranks.first:
        dist.barrier(group=_control)


def largest(*numbers: int) -> list[int]:
    """The largest of each number over all ranks, so that all of them decide alike; no GPU is waited for."""
    if _control is None:
        return list(numbers)
    each = torch.tensor(numbers)
    dist.all_reduce(each, dist.ReduceOp.MAX, group=_control)
    return [int(number) for number in each]


def summed(tensor: Tensor) -> Tensor:
    """The sum over all ranks; the tensor itself when there is one."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        tensor = tensor.detach().clone()
        dist.all_reduce(tensor)
    return tensor


class Launched(ClusterEnvironment):
    """Tells Lightning that the processes are there already."""

    creates_processes_externally = True
    main_address = ""  # they have met already
    main_port = 0

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.ranks = ranks

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self.ranks.world

    def set_world_size(self, size: int) -> None:
        """Known from the start."""

    def global_rank(self) -> int:
        return self.ranks.rank

    def set_global_rank(self, rank: int) -> None:
        """Known from the start."""

    def local_rank(self) -> int:
        return self.ranks.local_rank

    def node_rank(self) -> int:
        return self.ranks.rank // self.ranks.local_world
