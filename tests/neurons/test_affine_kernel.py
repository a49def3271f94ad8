"""The affine quantiser's kernel against its plain form, whose gradient autograd finds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from spikelm.neurons.kernels import affine as kernel
from spikelm.neurons.kernels.affine import affine, affine_code
from spikelm.neurons.kernels.packing import packed_of
from spikelm.neurons.kernels.spike_matmul import spike_linear


def plainly(x: Tensor, bits: int, more: int, channels: Tensor) -> Tensor:
    outs = []
    for width in (bits, bits + more):
        codes, scale, zero = affine(x, width)
        outs.append((codes - zero) * scale)
    fine = torch.zeros(x.shape[-1], dtype=torch.bool)
    fine[channels] = True
    return torch.where(fine, outs[1], outs[0])


def tokens(kind: str, size: int) -> Tensor:
    """Tokens of many kinds; whole and equal values have ties at the minimum and the maximum."""
    x = torch.randn(2, 3, 20, size, dtype=torch.float64)
    if kind == "offset":
        return x - 50
    if kind == "far":
        return x + 1e5  # z is cut off
    if kind == "whole":
        return (x * 3).round() / 2
    if kind == "equal":
        return x[..., :1].expand(x.shape) * torch.ones_like(x)
    if kind == "huge":
        return x * 1e6  # a is cut off
    return x


@pytest.mark.parametrize("kind", ["normal", "offset", "far", "whole", "equal", "huge"])
@pytest.mark.parametrize(("bits", "more"), [(4, 1), (2, 2), (8, 2)])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_values_and_gradients_are_those_of_the_plain_form(
    kind: str, bits: int, more: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "PIECE", 100)
    torch.manual_seed(bits)
    x = tokens(kind, 30)
    channels = torch.randperm(30)[: int(share * 30)]
    grad = torch.randn_like(x)
    found = []
    for code in (plainly, affine_code):
        read = x.clone().requires_grad_()
        y = code(read, bits, more, channels)
        y.backward(grad)
        assert read.grad is not None
        found.append((y.detach(), read.grad))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("channels", [None, [1, 4]])
def test_a_linear_behind_it_keeps_the_codes(channels: list[int] | None) -> None:
    picked = None if channels is None else torch.tensor(channels)
    x = torch.randn(2, 3, 5, 8, requires_grad=True)
    weight = torch.randn(4, 8, requires_grad=True)
    y = affine_code(x, 4, 1, picked)
    packed = packed_of(y)
    assert packed is not None
    assert packed.levels.dtype == torch.uint8
    assert torch.equal(packed.floats(packed.levels, packed.alpha), y)
    grads = [
        torch.autograd.grad(product(y, weight, None).square().sum(), weight, retain_graph=True)[0]
        for product in (spike_linear, torch.nn.functional.linear)
    ]
    torch.testing.assert_close(*grads)


def test_nothing_is_kept_where_no_gradient_is_asked_for() -> None:
    with torch.no_grad():
        assert packed_of(affine_code(torch.randn(1, 2, 8), 4)) is None


def test_half_precision_is_computed_in_single() -> None:
    x = torch.randn(1, 4, 8, dtype=torch.bfloat16)
    grad = torch.randn_like(x)
    low, single = x.clone().requires_grad_(), x.float().requires_grad_()
    affine_code(low, 4).backward(grad)
    affine_code(single, 4).backward(grad.float())
    assert low.grad is not None
    assert single.grad is not None
    assert torch.equal(affine_code(x, 4), affine_code(x.float(), 4).bfloat16())
    assert torch.equal(low.grad, single.grad.bfloat16())
