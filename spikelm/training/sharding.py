"""FSDP: every rank holds a share of the parameters, their gradients and the optimiser's states, layer by layer.

What is trained is what DDP trains; a layer's parameters are whole only while it computes. While a model is evaluated
they stay whole, since generated texts end at different lengths on different ranks.
"""

from __future__ import annotations

import copy
from typing import Any

import lightning as L
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from spikelm.errors import ConfigError
from spikelm.training.ranks import Launched, Ranks

STEPS = ("training_step", "validation_step")  # Lightning calls these, not forward


class Sharded(ModelParallelStrategy):
    """Lightning's FSDP2 over all ranks; a checkpoint is one whole file, as of a run on one device."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__(ranks.world, 1, save_distributed_checkpoint=False)
        self.cluster_environment = Launched(ranks)


def shard(module: Any, mesh: Any) -> None:
    """Cut each layer of the module's model, then what is left, over the ranks of Lightning's mesh."""
    mesh = mesh["data_parallel"]
    if scalars := [name for name, parameter in module.named_parameters() if not parameter.dim()]:
        raise ConfigError(
            f"trainer.strategy=fsdp cannot share out {scalars[0]}, a single number", "trainer.strategy=ddp"
        )
    for layer in _layers(module.model):
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    for name in STEPS:
        register_fsdp_forward_method(module, name)


def _layers(model: nn.Module) -> list[nn.Module]:
    """The outermost members of lists of modules: encoder and decoder layers."""
    found: list[nn.Module] = []
    for child in model.children():
        found += list(child) if isinstance(child, nn.ModuleList) else _layers(child)
    return found


class WholeInEvaluation(L.Callback):
    """Gathers all parameters before an evaluation and gives them back after it."""

    def on_validation_start(self, trainer: L.Trainer, module: Any) -> None:
        for part in _sharded(module):
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()

    def on_validation_end(self, trainer: L.Trainer, module: Any) -> None:
        for part in _sharded(module):
            part.reshard()
            part.set_reshard_after_forward(part is not module, recurse=False)


def _sharded(module: Any) -> list[FSDPModule]:
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, put together where they are shared out; all ranks call it alike."""
    state = model.state_dict()
    return {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in state.items()}


def twin_of(model: Any) -> Any:
    """A model to load the whole state into: a sharded one cannot be used by one rank alone."""
    return copy.deepcopy(model).cpu()
