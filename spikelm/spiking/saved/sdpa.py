"""Attention for training on a CPU: torch's own products, digit by digit, with less drawn and kept for its dropout.

With dropout, torch's scaled_dot_product_attention takes its plain path on a CPU, which keeps scaled copies of q and k,
the value, the probabilities before and after dropout and the noise, all as floats. Here q and the probabilities are
kept, keys and values as packed spikes, the noise as bits. (Computing the probabilities again, too, made the attention
a quarter slower.) Anything else (no dropout, no gradients, half precision, a GPU, a causal mask that is not given) goes
to torch's function. Queries whose keys are turned behind their rotary positions are turned here, too, and neurons of
keys and values that wait for the other operand of their product (operands.py) are given it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from spikelm.neurons.kernels.packing import Shared, packed_of, times_noise
from spikelm.spiking.operands import hand_over, waiting
from spikelm.spiking.saved.dropout import draw, level

NAME = "spikelm_sdpa"
QUERY_TURN = "turn_query"  # of an attention whose keys are turned behind their rotary positions (rotation.py)


class Operand:
    """A key or value that is kept: as packed spikes where it is such, else as it is."""

    def __init__(self, x: Tensor) -> None:
        packed = packed_of(x)
        self.view = (x.size(), x.stride(), x.storage_offset())
        self.shared = Shared(packed.floats) if packed else None
        self.tensors = (packed.levels, packed.alpha) if packed else (x, None)

    def read(self, first: Tensor, second: Tensor | None) -> Tensor:
        if self.shared is None or second is None:
            return first
        return self.shared.read(first, second, second.dtype).as_strided(*self.view)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """factor * x (B, heads, n, d) as one batch of matrices, in one pass whatever the order of its axes.

    Keys come transposed, as torch lays them out: the last digits of a product depend on it.
    """
    return torch.mul(x, factor, out=torch.empty(x.shape, dtype=x.dtype)).flatten(0, 1)


def _probabilities(query: Tensor, key: Tensor, mask: Tensor | None, root: float) -> Tensor:
    """softmax(q k' scale + mask), 0 in rows that are masked wholly; the root of the scale goes to each operand."""
    scores = _scaled(query, root).bmm(_scaled(key.mT, root)).view(*query.shape[:3], key.shape[2])
    if mask is None:
        return scores.softmax(-1)
    probabilities = scores.add_(mask).softmax(-1)
    return probabilities.masked_fill_((mask == -torch.inf).all(-1, keepdim=True), 0.0)


class Attend(torch.autograd.Function):
    """dropout(softmax(q k' scale + mask)) v."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scale: float,
        p: float,
        operands: tuple[Operand, Operand],
    ) -> Tensor:
        ctx.root, ctx.p, ctx.operands = math.sqrt(scale), p, operands
        probabilities = _probabilities(query, key, mask, ctx.root)
        bits = draw(probabilities, p)
        ctx.save_for_backward(query, probabilities, bits, *operands[0].tensors, *operands[1].tensors)
        dropped = times_noise(probabilities, bits, level(probabilities, p))
        return dropped.flatten(0, 1).bmm(value.flatten(0, 1)).view(query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        query, probabilities, bits, *kept = ctx.saved_tensors
        key, value = ctx.operands[0].read(*kept[:2]), ctx.operands[1].read(*kept[2:])
        unit, root = level(probabilities, ctx.p), ctx.root
        grad = grad.flatten(0, 1)
        grad_value = times_noise(probabilities, bits, unit).flatten(0, 1).mT.bmm(grad).view(value.shape)
        grad_dropped = grad.bmm(value.flatten(0, 1).mT).view(probabilities.shape)
        grad_probabilities = times_noise(grad_dropped, bits, unit, out=grad_dropped)
        dtype = probabilities.dtype
        grad_scores = torch._softmax_backward_data(grad_probabilities, probabilities, -1, dtype).flatten(0, 1)
        grad_query = grad_scores.bmm(_scaled(key.mT, root).mT).mul_(root).view(query.shape)
        grad_key = _scaled(query, root).mT.bmm(grad_scores).mul_(root).view(*key.shape[:2], -1, key.shape[2]).mT
        return grad_query, grad_key, grad_value, None, None, None, None


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' sdpa attention, with less kept where gradients are wanted on a CPU."""
    if (turn := getattr(module, QUERY_TURN, None)) is not None:
        tokens = query.transpose(1, 2)
        query = turn(tokens.flatten(2)).unflatten(-1, tokens.shape[2:]).transpose(1, 2)
    if waiting(module):
        _hand_over(module, query, key, attention_mask, scaling=scaling, is_causal=is_causal, **kwargs)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    ours = (
        (0.0 < dropout < 1.0 and torch.is_grad_enabled() and query.requires_grad)
        and (query.is_cpu and query.dtype in (torch.float32, torch.float64))
        and (attention_mask is not None or not causal)
        and not (torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())
    )
    if not ours:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=is_causal, **kwargs
        )
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        attention_mask = torch.zeros_like(attention_mask, dtype=query.dtype).masked_fill_(~attention_mask, -torch.inf)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    operands = Operand(key), Operand(value)
    context = Attend.apply(query, key, value, attention_mask, scale, dropout, operands)
    return context.transpose(1, 2).contiguous(), None


@torch.no_grad()
def _hand_over(module: Any, query: Tensor, key: Tensor, mask: Tensor | None, **kwargs: Any) -> None:
    """Give neurons that wait the queries, and the map: what torch's attention makes of the identity as values."""
    identity = torch.eye(key.shape[2], dtype=query.dtype, device=query.device).expand(*key.shape[:2], -1, -1)
    rows, _ = sdpa_attention_forward(module, query, key, identity, mask, 0.0, **kwargs)
    hand_over(module, {"query": query, "map": rows.transpose(1, 2)}, key)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)


def keep_less(model: Any) -> None:
    """Let a model whose attention is torch's take this one."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(NAME)
