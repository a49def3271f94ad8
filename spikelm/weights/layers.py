"""Quantisers put into a model: its linears and word embeddings compute with Q(W), in place, names unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.errors import ConfigError
from spikelm.neurons import load_class
from spikelm.neurons.kernels.spike_matmul import spike_linear
from spikelm.weights.base import WeightQuantizer

#: what a spec says about where the quantiser goes, not to the quantiser
PLACES = ("embeddings",)


class QuantizedLinear(nn.Linear):
    """A linear that multiplies by Q(W)."""

    quantizer: WeightQuantizer

    def forward(self, input: Tensor) -> Tensor:
        return spike_linear(input, self.quantizer(self.weight), self.bias)


class QuantizedEmbedding(nn.Embedding):
    """A table that looks up rows of Q(W)."""

    quantizer: WeightQuantizer

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.quantizer(self.weight), self.padding_idx)


def build_quantizer(spec: Mapping[str, Any], rows: bool | None = None) -> WeightQuantizer:
    """A quantiser from its config node: `_target_` names the class, the rest are its arguments."""
    arguments = {key: value for key, value in spec.items() if key not in PLACES}
    if rows is not None:
        arguments["rows"] = rows
    return load_class(arguments.pop("_target_"), "quantizer")(**arguments)


def quantize_weights(model: Any, spec: Mapping[str, Any], linears: Iterable[nn.Module]) -> None:
    """Give `linears` a quantiser each; spec.embeddings says whether word embeddings get one: none, tensor or rows."""
    for linear in linears:
        if type(linear) is not nn.Linear:
            raise ConfigError(f"weights are quantised in linears; {type(linear).__name__} is none", "weights=none")
        _give(linear, QuantizedLinear, build_quantizer(spec))
    where = spec.get("embeddings", "none")
    if where == "none":
        return
    table = model.base_model.get_input_embeddings()
    if type(table) is not nn.Embedding:
        raise ConfigError(f"{type(table).__name__} is not quantised", "weights.embeddings=none")
    _give(table, QuantizedEmbedding, build_quantizer(spec, rows=where == "rows"))


def _give(module: Any, cls: type, quantizer: WeightQuantizer) -> None:
    module.quantizer = quantizer
    module.__class__ = cls  # a linear as before to transformers, with one more child
    quantizer.prepare(module.weight)


def quantized(model: nn.Module) -> Iterator[QuantizedLinear | QuantizedEmbedding]:
    """The modules of a model that compute with quantised weights."""
    return (m for m in model.modules() if isinstance(m, QuantizedLinear | QuantizedEmbedding))
