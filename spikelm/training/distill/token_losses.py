"""Losses on the logits of many tokens, of which only a few are there at a time.

A vocabulary is large: 600 tokens of 59,514 words are 143 MB, and a cross entropy beside a divergence from a teacher
holds nine tensors of that size. Here a few tokens have their logits, loss and gradient computed, then the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

TOKENS = 64  # at a time: with 59,514 words a tensor of 15 MB, which a processor's cache holds
OfTokens = Callable[[Tensor, slice], Tensor]


def sum_by_tokens(loss: OfTokens, states: Tensor, head: nn.Module) -> Tensor:
    """The sum of `loss(states[part], part)` over parts of the tokens (tokens, width); gradients reach states and head.

    `loss` is a sum over the tokens that it is given, and may use the parameters of the head, but no others that learn.
    """
    learned = [parameter for parameter in head.parameters() if parameter.requires_grad]
    total: Tensor = _SumByTokens.apply(loss, states, *learned)
    return total


class _SumByTokens(torch.autograd.Function):
    """The gradient of each part is computed with its loss: only it is kept for the backward."""

    @staticmethod
    def forward(ctx: Any, loss: OfTokens, states: Tensor, *learned: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=states.device)
        of_states = torch.zeros_like(states)
        of_learned = [torch.zeros_like(parameter) for parameter in learned]
        for start in range(0, len(states), TOKENS):
            part = slice(start, start + TOKENS)
            with torch.enable_grad():
                few = states[part].detach().requires_grad_()
                value = loss(few, part)
                gradient, *more = torch.autograd.grad(value, [few, *learned])
            total += value.detach().float()
            of_states[part] = gradient
            for kept, added in zip(of_learned, more, strict=True):
                kept += added
        ctx.save_for_backward(of_states, *of_learned)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, *tuple[Tensor, ...]]:
        of_states, *of_learned = ctx.saved_tensors
        return None, of_states * grad, *(kept * grad for kept in of_learned)
