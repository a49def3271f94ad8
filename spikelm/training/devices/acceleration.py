"""What of a training changes its speed or memory: compiled neurons or blocks, and activation checkpointing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from spikelm.config.settings.running import TrainerConfig
from spikelm.errors import ConfigError
from spikelm.neurons.kernels.compiled import RECOMPILE, can_compile
from spikelm.spiking import neurons
from spikelm.spiking.sites import ARCHITECTURES, BERT


@contextmanager
def accelerated(model: Any, config: TrainerConfig) -> Iterator[None]:
    """Train inside; what is measured afterwards sees the model as it was, every product of it in sight."""
    spiking = list(neurons(model))
    parts = compiled_parts(config, model.device)
    compiled_blocks = blocks(model) if parts == "model" else []
    if config.activation_checkpointing:
        _checkpoint(model)
    for neuron in spiking:
        neuron.compiled = parts != "off"
    for block in compiled_blocks:
        # the draws of dropout are torch's own, so that only rounding tells a compiled run from another
        block.compile(dynamic=True, fullgraph=True, options={"fallback_random": True}, **RECOMPILE)
    try:
        yield
    finally:
        for neuron in spiking:
            neuron.compiled = False
        for block in compiled_blocks:
            block._compiled_call_impl = None
        if config.activation_checkpointing:
            model.gradient_checkpointing_disable()


def compiled_parts(config: TrainerConfig, device: torch.device) -> str:
    """What is compiled: as `trainer.compile` says, where a compiler is there; auto is neurons on a GPU, else off."""
    asked = config.compile
    if asked == "auto":
        asked = "neurons" if device.type == "cuda" else "off"
    return asked if asked != "off" and can_compile(device.type) else "off"


def blocks(model: Any) -> list[nn.Module]:
    """The equal blocks of a BERT, or of a model built like it, which are what is compiled: one graph for all."""
    kind = model.config.model_type
    if ARCHITECTURES.get(kind) != (BERT,):
        raise ConfigError(f"trainer.compile=model is for a BERT, not for {kind}", "compile=neurons")
    return list(model.base_model.get_submodule(BERT.prefix))


def _checkpoint(model: Any) -> None:
    """Keep what enters a block, and compute the block again in the backward: same draws, same digits."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise ConfigError(
            f"{type(model).__name__} has no activation checkpointing", "trainer.activation_checkpointing=false"
        )
    model.gradient_checkpointing_enable({"use_reentrant": False})
