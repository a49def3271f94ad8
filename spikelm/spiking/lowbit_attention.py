"""One attention for all variants: what low-bit systems do between query, key and value (docs/paper/lowbit.md).

- quantized: query and attention probabilities are rounded by neurons too (TernaryBERT, BinaryBERT, BiT).
- boolean: no softmax; a query attends to every key with a positive score (BiBERT's Bi-Attention).
- rank1: quantized, with rank-1 real-valued corrections of scores and values (BiPFT).
- real: nothing is rounded; the softmax is another operator (spikelm/operators).

The softmax of all but boolean can be another operator.

It is registered with transformers under one name and finds its variant on the module that calls it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from spikelm.neurons import Neuron
from spikelm.operators import ScoreOperator
from spikelm.spiking.folding import over_time

NAME = "spikelm"
SOFTMAX = "softmax"  # the operator in place of the softmax
PROBS = "spike_probs"  # the neuron of the attention probabilities, in its checkpoint


class Bool(torch.autograd.Function):
    """[x > 0], whose gradient passes where |x| < 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < 1)


class RankOne(nn.Module):
    """Five numbers per token from the layer's real-valued input x: qp, kp, qm, km, vp, each Linear(H, 1)."""

    def __init__(self, hidden: int, deviation: float) -> None:
        super().__init__()
        self.estimate = nn.Linear(hidden, 5)
        nn.init.normal_(self.estimate.weight, std=deviation)
        nn.init.zeros_(self.estimate.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the scores, qm kp' + qp km' + qp kp' (B, 1, n, n), and vp (B, 1, n, 1), for all heads."""
        qp, kp, qm, km, vp = self.estimate(x).unsqueeze(1).split(1, dim=-1)
        return qm * kp.mT + qp * km.mT + qp * kp.mT, vp


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    residual: tuple[Tensor, Tensor] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Context (B, n, heads, d) and the map (B, heads, n, n); query, key and value are what their neurons made."""
    scores = query @ key.mT
    if residual is not None:
        scores = scores + residual[0]
    scores = scores * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores = scores + attention_mask
    if getattr(module, "attention_variant", "real") == "boolean":
        weights = Bool.apply(F.dropout(scores, dropout, module.training))
    else:
        operator = module._modules.get(SOFTMAX)
        weights = scores.softmax(-1) if operator is None else operator(scores)
        weights = F.dropout(weights, dropout, module.training)
        if (probabilities := module._modules.get(PROBS)) is not None:
            weights = over_time(probabilities, weights)
    context = weights @ value
    if residual is not None:
        context = context + weights @ residual[1]
    return context.transpose(1, 2).contiguous(), weights


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, eager_mask)


def give_attention(model: Any, block: nn.Module, variant: str, probabilities: Neuron | None) -> None:
    """Let a BERT block's self attention be the variant; called before its input gets a neuron."""
    attention: Any = block.get_submodule("attention.self")
    attention.attention_variant = variant
    if probabilities is not None:
        attention.add_module(PROBS, probabilities)
    if variant == "rank1":
        attention.residual = RankOne(model.config.hidden_size, model.config.initializer_range)
        attention.register_forward_pre_hook(_estimate, with_kwargs=True)


def give_operator(block: nn.Module, operator: ScoreOperator) -> None:
    """Let a block's self attention make its weights by an operator in place of the softmax."""
    block.get_submodule("attention.self").add_module(SOFTMAX, operator)


def _estimate(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Before the input neuron: the estimators read real values; transformers hands the result on to `attend`."""
    hidden = args[0] if args else kwargs["hidden_states"]
    return args, {**kwargs, "residual": module.residual(hidden)}
