"""What recipes in conf/ are written with, where a value depends on the task, the backbone or the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omegaconf import OmegaConf

from spikelm.catalog.kinds import KINDS
from spikelm.config.devices import uses_gpu
from spikelm.config.plugins import option_file, package_dir
from spikelm.machine.cpu import side_by_side, usable_threads
from spikelm.machine.gpus import gpus

GPU_SCALE = "paper"  # the scale whose runs a cluster gives GPUs without being asked


def _layers_over(share: int, *, _root_: Any) -> int:
    """The layers that the backbone's own file gives it, over `share`, at least one."""
    path = option_file("backbone", _root_.backbone.name)
    own: Any = OmegaConf.load(path) if path else {}
    layers = own.get("layers")
    if layers is None:
        raise ValueError(f"backbone={_root_.backbone.name} has no layers of its own: set backbone.layers")
    return max(1, int(layers) // share)


def _architecture(*, _root_: Any) -> str:
    """What people call the plain model of the backbone: a title that is made of it is true of any backbone."""
    backbone = _root_.backbone
    kind = KINDS.get(backbone.kind)
    return str(backbone.title or (kind.title if kind else backbone.kind))  # another kind is refused later


def _by_task(values: Any, other: Any, *, _root_: Any) -> Any:
    """The value of the task at hand by the last part of its name; `other` for tasks that are not listed."""
    return values.get(str(_root_.task.name).rpartition("/")[2], other)


def _by_neuron(values: Any, other: Any, *, _root_: Any) -> Any:
    """The value of the neuron at hand (ann: the plain model); `other` for neurons that are not listed."""
    return values.get(str(_root_.neuron.name), other)


def _unless_weights(value: Any, *, _root_: Any) -> Any:
    """A value where the backbone starts from scratch; 0 where it has weights, which are taken as they are."""
    return 0 if _root_.backbone.path else value


def _bits_for(levels: int) -> int | str:
    """Bits that hold one of so many levels; three of them are called ternary."""
    return "ter" if int(levels) == 3 else (int(levels) - 1).bit_length()


def _plus(first: int, second: int) -> int:
    return int(first) + int(second)


def _sweep_jobs(*, _root_: Any) -> int:
    """How many jobs may run side by side: one for each GPU, or as many as the cores and the model's size allow."""
    if uses_gpu(_root_):
        return max(1, len(gpus()) // (_root_.trainer.devices or 1))
    backbone = _root_.backbone
    sizes = (None if OmegaConf.is_missing(backbone, key) else backbone[key] for key in ("layers", "hidden"))
    return side_by_side(*sizes)


def _job_gpus(*, _root_: Any) -> int | None:
    """GPUs of one job on a cluster: as many as it trains on, at the scale that is made for them; else none."""
    trainer = _root_.trainer
    if trainer.accelerator in ("cpu", "mps"):
        return None
    wanted = _root_.scale == GPU_SCALE or trainer.accelerator in ("gpu", "cuda")
    return (trainer.devices or 1) if wanted else None


def _job_cores(*, _root_: Any) -> int:
    """Cores of one job on a cluster: for each device its loaders, the process that trains, and one to spare."""
    trainer = _root_.trainer
    return int((trainer.devices or 1) * (trainer.workers + 2))


RESOLVERS: dict[str, Callable[..., Any]] = {
    "architecture": _architecture,  # LIF-${architecture:} is LIF-BERT, or LIF-BART where the backbone is one
    "bits_for": _bits_for,  # ${bits_for:16} is 4: the bits that hold one of 16 levels
    "by_neuron": _by_neuron,  # ${by_neuron:{ann: 2},null} is 2 for the plain model and nothing for others
    "by_task": _by_task,  # ${by_task:{cola: 50},10} is 50 for cola and 10 for other tasks
    "job_cores": _job_cores,  # ${job_cores:} is the number of cores of a job of hydra/launcher=slurm
    "job_gpus": _job_gpus,  # ${job_gpus:} is its number of GPUs
    "layers_over": _layers_over,  # ${layers_over:4} is a quarter of the backbone's layers
    "package_dir": package_dir,  # ${package_dir:name} is the folder of an installed plugin
    "plus": _plus,  # ${plus:${.width},1} is one more than the width
    "sweep_jobs": _sweep_jobs,  # ${sweep_jobs:} is the number of jobs of hydra/launcher=parallel
    "unless_weights": _unless_weights,  # ${unless_weights:1000} is 1000 steps, and none where weights are given
    "usable_cores": usable_threads,  # ${usable_cores:} is the number of threads for one job on this machine
}


def register_resolvers() -> None:
    """Make them known to OmegaConf."""
    for name, resolver in RESOLVERS.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)
