"""BERT layers with a norm after each linear and a membrane residual: the blocks of SpikingFormer and of SpikeBERT."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

LINEARS = ("attention.self.query", "attention.self.key", "attention.self.value", "intermediate.dense")
RESIDUALS = ("attention.output", "output")


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch norm of (rows, tokens, features) over rows and tokens, pads included."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view(x.shape)


class NormedLinear(nn.Linear):
    """norm(W x + b), under the parameter names of the linear it takes the place of."""

    def __init__(self, linear: nn.Linear, norm: str, eps: float) -> None:
        super().__init__(linear.in_features, linear.out_features, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.norm = (TokenBatchNorm if norm == "bn" else nn.LayerNorm)(self.out_features, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x))


class MembraneOutput(nn.Module):
    """x + dropout(norm(W h + b)): what takes the place of BERT's LN(x + dropout(W h + b))."""

    def __init__(self, dense: NormedLinear, dropout: nn.Module) -> None:
        super().__init__()
        self.dense = dense
        self.dropout = dropout

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        return input_tensor + self.dropout(self.dense(hidden_states))


def norm_after_linears(layer: Any, norm: str, ffn_activation: str = "none", *, eps: float) -> None:
    """Turn one of transformers' BERT layers into a layer with membrane residual, in place."""
    for path in LINEARS:
        layer.set_submodule(path, NormedLinear(layer.get_submodule(path), norm, eps))
    for path in RESIDUALS:
        old = layer.get_submodule(path)
        layer.set_submodule(path, MembraneOutput(NormedLinear(old.dense, norm, eps), old.dropout))
    if ffn_activation == "none":
        layer.intermediate.intermediate_act_fn = nn.Identity()
