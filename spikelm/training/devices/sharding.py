"""FSDP: every rank holds a share of the parameters, their gradients and the optimiser's states, layer by layer.

What is trained is what DDP trains; a layer's parameters are whole only while it computes. While a model is evaluated
they stay whole, since generated texts end at different lengths on different ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import lightning as L
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from spikelm.errors import ConfigError
from spikelm.training.devices.ranks import Launched, Ranks

STEPS = ("step_loss", "validation_step")  # what is called, not forward; parts of a step are forwards of their own


class Sharded(ModelParallelStrategy):
    """Lightning's FSDP2 over all ranks; a checkpoint is one whole file, as of a run on one device."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__(ranks.world, 1, save_distributed_checkpoint=False)
        self.cluster_environment = Launched(ranks)

    # Lightning's own numbers an optimiser's states by the order of the model, not of the optimiser's groups: on one
    # device they would be taken for those of other parameters.

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        optimizer = getattr(optimizer, "_optimizer", optimizer)  # as Lightning wraps it
        state = optimizer.state_dict()
        states = {id: {key: _whole(value) for key, value in entry.items()} for id, entry in state["state"].items()}
        return {**state, "state": states} if self.is_global_zero else {}

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        return self.checkpoint_io.load_checkpoint(checkpoint_path, map_location="cpu", weights_only=True)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.model is not None
        set_model_state_dict(
            self.model, dict(checkpoint["state_dict"]), options=StateDictOptions(full_state_dict=True, strict=strict)
        )

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [entry for group in optimizer.param_groups for entry in group["params"]]
            states = {
                id: {key: _shared_out(value, parameters[id]) for key, value in entry.items()}
                for id, entry in saved["state"].items()
            }
            optimizer.load_state_dict({**saved, "state": states})


def _whole(value: Any) -> Any:
    """A tensor put together, on the CPU; anything else as it is."""
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu() if isinstance(value, Tensor) else value


def _shared_out(value: Any, like: Any) -> Any:
    """This rank's shard of what an optimiser knows of each number of a parameter."""
    if not isinstance(value, Tensor) or value.shape != like.shape or not isinstance(like, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


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
    layers: list[nn.Module] = []
    for child in model.children():
        layers += list(child) if isinstance(child, nn.ModuleList) else _layers(child)
    return layers


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
    return {name: _whole(value) for name, value in state.items()}


def twin_of(model: Any) -> Any:
    """A model to load the whole state into: a sharded one cannot be used by one rank alone."""
    return copy.deepcopy(model).cpu()
