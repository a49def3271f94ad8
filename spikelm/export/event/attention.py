"""Attention whose keys and values are spikes: in C++ where it is compiled, else as torch has it.

Both forms of an exported model that read whole numbers, int8 and event, go the same way and so have the same digits.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.export.event.library import library, path_in_use
from spikelm.export.event.linear import RULES, reads
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels


def spiking_attention(
    qkv: Tensor, mask: Tensor | None, batch: int, heads: int, threshold: Tensor, height: Tensor, rule: ClipRule
) -> Tensor:
    """Of qkv (T, B*n, 3 H), whose keys and values fire without memory, to (T, B*n, H).

    Thresholds and heights are (T, 1, 2 H): one number for the keys of a time step, one for the values.
    """
    if torch.compiler.is_compiling() or not reads(qkv):
        kv = levels(qkv[..., qkv.shape[-1] // 3 :], threshold, rule).mul_(height)
        return dense_attention(qkv, kv.chunk(2, dim=-1), mask, batch, heads)
    context: Tensor = library().attention(
        qkv, mask, batch, heads, threshold, height, RULES[rule.fire], rule.bidirectional, path_in_use()
    )
    return context


def dense_attention(qkv: Tensor, kv: tuple[Tensor, ...], mask: Tensor | None, batch: int, heads: int) -> Tensor:
    """Of the queries of qkv (T, B*n, 3 H) and ready-made keys and values (T, B*n, H)."""
    T, rows, hidden = kv[0].shape
    query, key, value = (
        part.reshape(T * batch, rows // batch, heads, hidden // heads).transpose(1, 2)
        for part in (qkv[..., :hidden], *kv)
    )
    context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return context.transpose(1, 2).reshape(T, rows, hidden)
