"""Trained spiking models for inference alone: each neuron and the linears that read its spikes are one product.

The model stays the Hugging Face model that spikify converted, with its time steps, its cache of spikes and generate().
`import spikelm.export` lets the Auto classes load it: model types are `spikelm_` and the plain one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

from spikelm.catalog.kinds import LLAMA_FAMILY
from spikelm.config.recorded import rebuilt
from spikelm.errors import ConfigError
from spikelm.export.head import round_head
from spikelm.export.linears import PRECISIONS
from spikelm.export.readers import reader_of, weight_of
from spikelm.spiking import Spiking, spiking_class
from spikelm.spiking.sites import OURS, Stack, readers, stacks_of

ENTRY = "spikelm_export"  # of a transformers config
#: by the Auto class that loads it: where transformers keeps the plain classes, and of which model types there are some
LOADED_BY = (
    (AutoModelForSequenceClassification, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, ("bert", "roberta")),
    (AutoModelForSeq2SeqLM, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, ("bart", "mbart", "marian")),
    (AutoModelForCausalLM, MODEL_FOR_CAUSAL_LM_MAPPING, ("gpt2", *LLAMA_FAMILY)),
)


@dataclass(frozen=True)
class Export:
    """How the linears are computed; an exported model keeps it in its config.json."""

    precision: str = "fp32"
    exact_layers: int = 0  # so many of the first layers of each stack stay in fp32, whatever the others are
    int8_head: bool = False  # whether the LM head is in int8 as well, which rounds what it reads

    def precision_of(self, layer: int) -> str:
        """How the linears of a layer are computed."""
        return "fp32" if layer < self.exact_layers else self.precision

    def record_in(self, config: Any) -> None:
        """Write it into a transformers config, as plain data."""
        setattr(config, ENTRY, asdict(self))


def export_of(config: Any) -> Export:
    """What an exported model's config says of it."""
    record = getattr(config, ENTRY, None)
    if not record:
        raise ConfigError("this config does not say how the model was exported", "spikelm-export RUN writes one")
    export: Export = rebuilt(Export, record)
    if export.precision not in PRECISIONS:
        raise ConfigError(f"precision={export.precision} is not known", f"one of: {', '.join(PRECISIONS)}")
    return export


class Part(nn.Module):
    """Stands where a linear was: its outputs among those that a reader gives side by side."""

    start: int
    size: int

    def forward(self, joined: Tensor) -> Tensor:
        return joined.narrow(-1, self.start, self.size)


class Merged(Spiking):
    """Mixed into a spiking model class: its neurons and linears are merged as its config says."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        merge(self, export_of(config))


@cache
def merged_class(cls: type) -> Any:
    """The merged form of a Hugging Face model class: LlamaForCausalLM -> MergedLlamaForCausalLM."""
    spiking = spiking_class(cls)
    body = {
        "__module__": __name__,
        "__doc__": f"{cls.__name__} for inference alone, each neuron merged with the linears behind it.",
        "config_class": merged_config(spiking.config_class),
        "forward": torch.no_grad()(spiking.forward),
    }
    merged = type(f"Merged{cls.__name__}", (Merged, spiking), body)
    _CAN_RECORD_REGISTRY[str(merged)] = _CAN_RECORD_REGISTRY[str(spiking)]
    return merged


@cache
def merged_config(cls: Any) -> Any:
    """The config class of merged models: LlamaConfig -> MergedLlamaConfig."""
    return type(f"Merged{cls.__name__}", (cls,), {"__module__": __name__, "model_type": f"{OURS}{cls.model_type}"})


def merge(model: Any, export: Export) -> None:
    """Put a reader in the place of each neuron in front of linears, and nothing in the place of these; no way back.

    The LM head is none of these; it is rounded where the export says so.
    """
    for stack, index, block in _blocks(model):
        precision = export.precision_of(index)
        for host, name, linears in _merged(stack, block):
            setattr(host, name, reader_of(getattr(host, name), linears, precision))
            start = 0
            for linear in linears:
                size = len(weight_of(linear))
                _empty(linear, start, size)
                start += size
    if export.int8_head:
        round_head(model)


def _blocks(model: Any) -> Iterator[tuple[Stack, int, Any]]:
    for stack in stacks_of(model):
        for index, block in enumerate(model.base_model.get_submodule(stack.prefix)):
            yield stack, index, block


def _merged(stack: Stack, block: Any) -> Iterator[tuple[Any, str, list[Any]]]:
    """Where each neuron in front of linears is, and these."""
    for site in stack.sites:
        linears = readers(block, site)
        if linears:
            yield block.get_submodule(site.path), site.child, linears


def _empty(linear: Any, start: int, size: int) -> None:
    """A linear without weights: as a module it stays, with its hooks and the neurons behind it."""
    for name in list(linear._parameters):
        del linear._parameters[name]
    linear.__class__ = Part
    linear.start, linear.size = start, size


def merged_linears(model: Any, exact_layers: int = 0) -> Iterator[Any]:
    """The linears of a spiking model that are merged with the neurons in front of them, behind its first layers."""
    for stack, index, block in _blocks(model):
        if index >= exact_layers:
            for _, _, linears in _merged(stack, block):
                yield from linears


def layers_of(model: Any) -> int:
    """Blocks of the model's longest stack."""
    return 1 + max(index for _, index, _ in _blocks(model))


@cache
def merged_classes() -> dict[Any, Any]:
    """The Auto class that loads each class of merged models."""
    return {merged_class(mapping[CONFIG_MAPPING[kind]]): auto for auto, mapping, kinds in LOADED_BY for kind in kinds}


def auto_class(model: Any) -> Any:
    """The Auto class that loads an exported model."""
    return merged_classes().get(type(model), AutoModelForSequenceClassification)


for _made, _auto in merged_classes().items():
    AutoConfig.register(_made.config_class.model_type, _made.config_class)
    _auto.register(_made.config_class, _made)
