"""What recipes in conf/ are written with, where a value depends on the neuron or the task."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from spikelm.config.plugins import option_file, package_dir
from spikelm.machine.cpu import side_by_side, usable_threads

SIZES = ("layers", "hidden")


def _layers_over(share: int, *, _root_: Any) -> int:
    path = option_file("backbone", _root_.backbone.name)
    own: Any = OmegaConf.load(path) if path else {}
    layers = own.get("layers")
    if layers is None:
        raise ValueError(f"backbone={_root_.backbone.name} has no layers of its own: set backbone.layers")
    return max(1, int(layers) // share)


def _by_task(values: Any, other: Any, *, _root_: Any) -> Any:
    return values.get(str(_root_.task.name).rpartition("/")[2], other)


def _sweep_jobs(*, _root_: Any) -> int:
    backbone = _root_.backbone
    return side_by_side(*(None if OmegaConf.is_missing(backbone, key) else backbone[key] for key in SIZES))


def register_resolvers() -> None:
    """What recipes are written with: ${if_spiking:a,b} is a for a spiking neuron and b for the ANN,
    ${if_pairs:a,b} is a for a task with pairs of texts and b for all others, ${of_neuron:{lif:a},b} is a for that
    neuron and b for the others, ${layers_over:4} is a quarter of the layers that the backbone's file gives it, at least
    one, ${by_task:{cola: a},b} is a for cola and b for other tasks, ${when:x,y,a,b} is a where x is
    y and b where it is not, ${usable_cores:} is the number of threads for one job on this machine, ${sweep_jobs:}
    is how many jobs with models of this size may run side by side, ${package_dir:name} is the
    folder of an installed plugin.
    """
    OmegaConf.register_new_resolver("package_dir", package_dir, replace=True)
    OmegaConf.register_new_resolver("sweep_jobs", _sweep_jobs, replace=True)
    OmegaConf.register_new_resolver("usable_cores", usable_threads, replace=True)
    OmegaConf.register_new_resolver("by_task", _by_task, replace=True)
    OmegaConf.register_new_resolver("layers_over", _layers_over, replace=True)
    OmegaConf.register_new_resolver(
        "if_spiking", lambda a, b, *, _root_: a if _root_.neuron.get("_target_") else b, replace=True
    )
    OmegaConf.register_new_resolver("when", lambda x, y, a, b: a if x == y else b, replace=True)
    OmegaConf.register_new_resolver(
        "if_pairs", lambda a, b, *, _root_: a if _root_.task.kind == "seq2seq" else b, replace=True
    )
    OmegaConf.register_new_resolver(
        "of_neuron", lambda some, b, *, _root_: some.get(_root_.neuron.get("name"), b), replace=True
    )
