"""An LM head in int8. It reads real values, so they are rounded, too: with a scale for each token, found as it runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.export.linears import LARGEST, SpikeLinear


class Int8Head(SpikeLinear):
    """y = s S (W8 n) + b of x (..., in), where n is x / S rounded and S a 127th of the token's largest value."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1, "int8")

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        rows = x.reshape(1, -1, x.shape[-1])
        largest = rows.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny * LARGEST)
        step = largest / LARGEST
        return super().forward((rows / step).round_(), step).view(*x.shape[:-1], -1)


def head_of(model: Any) -> nn.Linear:
    """The linear that gives each piece of the vocabulary its score; raise where a model has none."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise ConfigError(f"{type(model).__name__} has no LM head to round", "a decoder, or leave --int8-head out")
    return head


@torch.no_grad()
def round_head(model: Any) -> None:
    """Put an int8 head in the place of the model's own; embeddings that shared its weights keep theirs."""
    head = head_of(model)
    weight = head.weight.detach()
    rounded = Int8Head(head.in_features, head.out_features).to(weight.device, weight.dtype)
    bias = weight.new_zeros(head.out_features) if head.bias is None else head.bias
    rounded.take(weight, bias, weight.new_ones(1))
    name = next(name for name, module in model.named_modules() if module is head)
    model.set_submodule(name, rounded)
    # transformers would tie it to the embeddings again.
    tied = f"{name}.weight"
    model._tied_weights_keys = {key: of for key, of in (model._tied_weights_keys or {}).items() if key != tied}
    model.all_tied_weights_keys.pop(tied, None)
