"""Ternary weight splitting: its two invariants in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from spikelm.weights.split import Split, split


def binarised(w: np.ndarray) -> np.ndarray:
    return np.abs(w).mean() * np.sign(w)


def ternary(w: np.ndarray) -> np.ndarray:
    size = np.abs(w)
    kept = size > 0.7 * size.mean()
    return np.where(kept, size[kept].mean() * np.sign(w), 0.0)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_halves_add_up_to_the_weights_and_to_the_ternary_ones(seed: int, rows: bool) -> None:
    weight = torch.randn(6, 40, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weight = weight**3 if seed == 2 else weight  # heavier tails
    first, second = split(weight, rows)
    np.testing.assert_allclose((first + second).numpy(), weight.numpy(), atol=1e-12)
    parts = zip(weight, first, second, strict=True) if rows else [(weight, first, second)]
    for whole, one, two in parts:
        np.testing.assert_allclose(binarised(one.numpy()) + binarised(two.numpy()), ternary(whole.numpy()), atol=1e-12)


def test_a_split_quantiser_starts_as_the_ternary_one_and_learns_both_halves() -> None:
    weight = torch.nn.Parameter(torch.randn(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    whole = weight.detach().clone()
    quantizer = Split()
    quantizer.prepare(weight)
    quantizer.start(weight)
    found: Tensor = quantizer(weight)
    np.testing.assert_allclose(found.detach().numpy(), ternary(whole.numpy()), atol=1e-12)
    grad = torch.randn(5, 9, dtype=torch.float64)
    found.backward(grad)
    assert quantizer.second.grad is not None
    assert torch.equal(quantizer.second.grad, grad)
    assert weight.grad is not None
    assert torch.equal(weight.grad, grad)


def test_a_row_of_zeros_stays_one() -> None:
    weight = torch.zeros(2, 4, dtype=torch.float64)
    first, second = split(weight, rows=True)
    assert torch.equal(first, weight)
    assert torch.equal(second, weight)
