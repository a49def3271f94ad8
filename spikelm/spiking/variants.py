"""What a low-bit system changes in a BERT beside its neurons: attention, FFN activation, pooler, width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN

from spikelm.config.settings.backbone import VariantConfig
from spikelm.errors import ConfigError
from spikelm.neurons import build_neuron
from spikelm.spiking.conversion import Conversion
from spikelm.spiking.lowbit_attention import NAME, give_attention
from spikelm.spiking.sites import BERT, Site, Stack, architecture_of

QUERY = Site("query_out", "attention.self.query", "output", memory=False)
POOLER = Site("pooler_in", "pooler.dense", "input")


def changes_of(variant: VariantConfig) -> list[str]:
    """The fields of a variant that are not as in a model without one."""
    return [name for name, value in vars(variant).items() if value != getattr(VariantConfig(), name)]


def alter(model: Any, conversion: Conversion) -> None:
    """Apply the variant of a conversion to a BERT, before weights are quantised and neurons are attached."""
    variant = conversion.variant
    if (kind := architecture_of(model)) != "bert":
        raise ConfigError(f"variant.{changes_of(variant)[0]} is for a BERT, not for {kind}")
    attention = variant.attention
    if attention != "real" and not conversion.neuron:
        raise ConfigError(f"variant.attention={attention} rounds the query: it needs a neuron", "neuron=sign")
    blocks = model.base_model.get_submodule(BERT.prefix)
    for index, block in enumerate(blocks):
        if variant.width != 1.0:
            narrow(block, variant.width)
        if variant.activation:
            block.intermediate.intermediate_act_fn = ACT2FN[variant.activation]
        if attention == "real":
            continue
        probabilities = None
        if attention != "boolean":
            probabilities = build_neuron(conversion.neuron, conversion.T, memory=False)
            probabilities.site = f"{BERT.prefix}.{index}.attn_probs"
        give_attention(model, block, attention, probabilities)
    if attention != "real":
        model.set_attn_implementation(NAME)


def sites_of(stack: Stack, variant: VariantConfig) -> tuple[Site, ...]:
    """The sites of a stack, the query's output among them where the variant asks for it."""
    return (*stack.sites, QUERY) if variant.attention != "real" else stack.sites


def linears_of(model: Any, stacks: tuple[Stack, ...], variant: VariantConfig) -> Iterator[nn.Module]:
    """The linears whose weights are quantised: all of the blocks but the real-valued estimators, and the pooler's."""
    base = model.base_model
    for stack in stacks:
        for name, module in base.get_submodule(stack.prefix).named_modules():
            weight = getattr(module, "weight", None)
            if weight is not None and weight.dim() == 2 and not name.endswith("residual.estimate"):
                yield module
    if variant.pooler and getattr(base, "pooler", None) is not None:
        yield base.pooler.dense


@torch.no_grad()
def narrow(block: Any, width: float) -> None:
    """Keep a share of the heads and of the FFN's neurons, those with the largest output weights (DynaBERT's width)."""
    attention, ffn = block.attention, block.intermediate.dense
    heads, size = attention.self.num_attention_heads, attention.self.attention_head_size
    out = attention.output.dense
    strength = out.weight.abs().unflatten(1, (heads, size)).sum((0, 2))
    kept = _largest(strength, width)
    columns = (kept[:, None] * size + torch.arange(size, device=kept.device)).flatten()
    for linear in (attention.self.query, attention.self.key, attention.self.value):
        _select(linear, columns, 0)
    _select(out, columns, 1)
    attention.self.num_attention_heads = len(kept)
    attention.self.all_head_size = len(columns)
    neurons = _largest(block.output.dense.weight.abs().sum(0), width)
    _select(ffn, neurons, 0)
    _select(block.output.dense, neurons, 1)


def _largest(strength: torch.Tensor, share: float) -> torch.Tensor:
    if strength.is_meta:  # built to be filled from a checkpoint, which has chosen already
        return torch.arange(max(1, round(share * len(strength))))
    return strength.topk(max(1, round(share * len(strength)))).indices.sort().values


def _select(linear: Any, index: torch.Tensor, axis: int) -> None:
    """Only the outputs (axis 0) or inputs (axis 1) at `index`."""
    index = index.to(linear.weight.device)
    linear.weight = nn.Parameter(linear.weight.index_select(axis, index))
    if axis == 0:
        linear.bias = nn.Parameter(linear.bias.index_select(0, index))
    linear.out_features, linear.in_features = linear.weight.shape
