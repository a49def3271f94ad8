"""SpikingFormer for text (facts 2.11): BERT whose residual stream is a real-valued membrane.

    x0 = N(x);  q = LN(Wq x0), k = N(LN(Wk x0)), v = N(LN(Wv x0));  x = x + LN(Wo N(softmax(q k' / sqrt d) v))
    x = x + LN(W2 N(LN(W1 N(x))))

N are the neurons, put in by spikify. The query and the attention weights stay real; every linear reads spikes, is
followed by its norm, and nothing normalises the residual path.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification

LINEARS = ("attention.self.query", "attention.self.key", "attention.self.value", "intermediate.dense")
RESIDUALS = ("attention.output", "output")


class MembraneBertConfig(BertConfig):
    """BERT's config; `norm` after each linear, `ffn_activation` between the FFN's two (the original has none).

    `norm_eps` is torch's: a linear that reads no spike gives a row of equal values, whose gradient a norm multiplies by
    1 / sqrt(eps). BERT's 1e-12 makes the gradient's norm infinite, and a clipped step then changes nothing.
    `attention_threshold` is that of the neuron on the attention's output, over the other neurons' threshold.
    """

    model_type = "spikingformer"

    norm: str = "ln"
    norm_eps: float = 1e-5
    ffn_activation: str = "none"
    attention_threshold: float = 0.5


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


class MembraneBertForPreTraining(BertForPreTraining):
    """With BERT's MLM and NSP heads."""

    config_class = MembraneBertConfig

    def __init__(self, config: MembraneBertConfig) -> None:
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            norm_after_linears(layer, config.norm, config.ffn_activation, eps=config.norm_eps)


class MembraneBertForSequenceClassification(BertForSequenceClassification):
    """With a classifier on BERT's pooler."""

    config_class = MembraneBertConfig

    def __init__(self, config: MembraneBertConfig) -> None:
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            norm_after_linears(layer, config.norm, config.ffn_activation, eps=config.norm_eps)
