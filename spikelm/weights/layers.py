"""Quantisers put into a model: its linears and word embeddings compute with Q(W), in place, names unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.config import trust
from spikelm.config.settings.specs import ClassSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.neurons.kernels.spike_matmul import spike_linear
from spikelm.weights.quantizer import WeightQuantizer


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


def build_quantizer(spec: ClassSpec, rows: bool | None = None) -> WeightQuantizer:
    """The quantiser of a spec, if its package is trusted; `rows` wins over the spec's own."""
    arguments = spec.arguments if rows is None else {**spec.arguments, "rows": rows}
    quantizer: WeightQuantizer = trust.load(spec.target, "quantizer class")(**arguments)
    return quantizer


def quantize_weights(model: Any, spec: QuantizerSpec, linears: Iterable[nn.Module]) -> None:
    """Give each of the `linears` a quantiser, and the word embeddings where the spec asks for it."""
    for linear in linears:
        if type(linear) is not nn.Linear:
            raise ConfigError(f"weights are quantised in linears; {type(linear).__name__} is none", "weights=none")
        _give(linear, QuantizedLinear, build_quantizer(spec))
    if spec.embeddings == "none":
        return
    table = model.base_model.get_input_embeddings()
    if type(table) is not nn.Embedding:
        raise ConfigError(f"{type(table).__name__} is not quantised", "weights.embeddings=none")
    _give(table, QuantizedEmbedding, build_quantizer(spec, rows=spec.embeddings == "rows"))


def _give(module: Any, cls: type, quantizer: WeightQuantizer) -> None:
    module.quantizer = quantizer
    module.__class__ = cls  # a linear as before to transformers, with one more child
    quantizer.prepare(module.weight)


def quantized(model: nn.Module) -> Iterator[QuantizedLinear | QuantizedEmbedding]:
    """The modules of a model that compute with quantised weights."""
    return (m for m in model.modules() if isinstance(m, QuantizedLinear | QuantizedEmbedding))
