"""Losses of a few tokens at a time against the same losses of all tokens at once, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.measure.memory import FEW_TOKENS
from spikelm.training.distill import token_losses
from spikelm.training.distill.losses import logits_loss
from spikelm.training.distill.token_losses import sum_by_tokens


def plain(states: Tensor, head: nn.Linear, labels: Tensor, goals: Tensor) -> Tensor:
    """Cross entropy and divergence of all tokens at once, summed."""
    logits = head(states)
    return F.cross_entropy(logits, labels, reduction="sum") + len(states) * logits_loss(logits, goals, 2.0)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("tokens", "at_a_time"), [(10, 4), (8, 4), (3, 64), (0, 4)])
def test_parts_of_the_tokens_give_the_sum_and_the_gradients_of_all(
    tokens: int, at_a_time: int, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_losses, "TOKENS", at_a_time)
    torch.manual_seed(0)
    head = nn.Linear(6, 11).double().requires_grad_(not frozen)
    states = torch.randn(tokens, 6, dtype=torch.float64, requires_grad=True)
    goals, labels = torch.randn(tokens, 11, dtype=torch.float64), torch.randint(11, (tokens,))
    learned = [states] if frozen else [states, *head.parameters()]
    sizes: list[int] = []

    def of_tokens(few: Tensor, part: slice) -> Tensor:
        sizes.append(len(few))
        return plain(few, head, labels[part], goals[part])

    summed = sum_by_tokens(of_tokens, states, head)
    assert sum(sizes) == tokens
    assert max(sizes, default=0) <= at_a_time
    if not tokens:
        assert summed == 0
        return
    whole = plain(states, head, labels, goals)
    assert summed.item() == pytest.approx(whole.item(), rel=1e-6)
    for ours, theirs in zip(
        torch.autograd.grad(3 * summed, learned), torch.autograd.grad(3 * whole, learned), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_gradient_goes_on_to_what_made_the_states() -> None:
    torch.manual_seed(0)
    below, head = nn.Linear(5, 6), nn.Linear(6, 11)
    inputs, labels = torch.randn(70, 5), torch.randint(11, (70,))

    def of_tokens(few: Tensor, part: slice) -> Tensor:
        return F.cross_entropy(head(few), labels[part], reduction="sum")

    (ours,) = torch.autograd.grad(sum_by_tokens(of_tokens, below(inputs), head), [below.weight])
    (theirs,) = torch.autograd.grad(F.cross_entropy(head(below(inputs)), labels, reduction="sum"), [below.weight])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_estimate_of_memory_counts_as_many_tokens() -> None:
    assert token_losses.TOKENS == FEW_TOKENS
