"""What recipes in conf/ are written with, where a value depends on the task, the backbone or the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omegaconf import OmegaConf

from spikelm.config.plugins import option_file, package_dir
from spikelm.machine.cpu import side_by_side, usable_threads


def _layers_over(share: int, *, _root_: Any) -> int:
    """The layers that the backbone's own file gives it, over `share`, at least one."""
    path = option_file("backbone", _root_.backbone.name)
    own: Any = OmegaConf.load(path) if path else {}
    layers = own.get("layers")
    if layers is None:
        raise ValueError(f"backbone={_root_.backbone.name} has no layers of its own: set backbone.layers")
    return max(1, int(layers) // share)


def _by_task(values: Any, other: Any, *, _root_: Any) -> Any:
    """The value of the task at hand by the last part of its name; `other` for tasks that are not listed."""
    return values.get(str(_root_.task.name).rpartition("/")[2], other)


def _sweep_jobs(*, _root_: Any) -> int:
    """How many jobs with models of this size may run side by side."""
    backbone = _root_.backbone
    sizes = (None if OmegaConf.is_missing(backbone, key) else backbone[key] for key in ("layers", "hidden"))
    return side_by_side(*sizes)


RESOLVERS: dict[str, Callable[..., Any]] = {
    "by_task": _by_task,  # ${by_task:{cola: 50},10} is 50 for cola and 10 for other tasks
    "layers_over": _layers_over,  # ${layers_over:4} is a quarter of the backbone's layers
    "package_dir": package_dir,  # ${package_dir:name} is the folder of an installed plugin
    "sweep_jobs": _sweep_jobs,  # ${sweep_jobs:} is the number of jobs of hydra/launcher=parallel
    "usable_cores": usable_threads,  # ${usable_cores:} is the number of threads for one job on this machine
}


def register_resolvers() -> None:
    """Make them known to OmegaConf."""
    for name, resolver in RESOLVERS.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)
