"""On how many devices a run trains, and how much memory each has: what the config says, or what this machine has."""

from __future__ import annotations

from spikelm.catalog.kinds import LABELLED
from spikelm.config.settings.schema import Config
from spikelm.machine.cpu import usable_cores
from spikelm.machine.gpus import gpus


def uses_gpu(config: Config) -> bool:
    """Whether the run will train on a GPU of this machine, as far as the driver tells."""
    return config.trainer.accelerator not in ("cpu", "mps") and bool(gpus())


def device_count(config: Config) -> int:
    """How many devices share a batch: `trainer.devices`, else all GPUs, but one for the rows of a classification.

    A classification has batches of 32 rows: eight of them side by side make better use of eight GPUs.
    """
    if config.trainer.devices:
        return config.trainer.devices
    if not uses_gpu(config) or config.task.kind in LABELLED:
        return 1
    return min(len(gpus()), config.stage.batch)


def crowding(config: Config) -> str:
    """What is said of a run with more processes than this machine has cores; GPUs are counted when it starts."""
    devices, cores = device_count(config), usable_cores()
    if uses_gpu(config) or devices <= cores:
        return ""
    have = "is one core" if cores == 1 else f"are {cores} cores"
    trains = f"trainer.devices={devices} trains in {devices} processes"
    return f"{trains}, but there {have} and no GPU: they wait for each other\n  fix: trainer.devices={cores}"


def device_memory(config: Config) -> float | None:
    """GB of one device: `trainer.device_memory`, else of the smallest GPU; None on a CPU and where nobody knows."""
    if config.trainer.device_memory:
        return config.trainer.device_memory
    if not uses_gpu(config):
        return None
    return min(gpu.memory_gb for gpu in gpus()) or None
