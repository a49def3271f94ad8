"""The residual ternary code against balanced ternary, a loop of autograd and numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spikelm.errors import ConfigError
from spikelm.neurons.unfolding.residual import Residual
from tests.neurons.unfolding.golden import assert_unfolds


def set_up(x: Tensor, **arguments: object) -> Residual:
    neuron = Residual(T=len(x), **arguments)  # type: ignore[arg-type]
    neuron(x)
    return neuron


def test_numbers_by_hand() -> None:
    neuron = Residual(T=1, steps=2)
    neuron.alpha.fill_(3.0)
    neuron.alpha_ready.fill_(True)
    x = torch.tensor([[[3.4, 1.6, -1.4, 0.4, -9.0, 0.0, 2.6]]])
    steps = neuron.unfold(x)
    assert steps[0].flatten().tolist() == [3, 3, 0, 0, -3, 0, 3]
    torch.testing.assert_close(steps[1].flatten(), torch.tensor([0.0, -1, -1, 0, -1, 0, 0]))


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize(("heights", "scale"), [("ratio", "layer"), ("data", "layer"), ("ratio", "token")])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_unfolds_into_ternary_spikes(T: int, heights: str, scale: str, steps: int) -> None:
    x = torch.randn(T, 4, 5, 16)
    assert len(assert_unfolds(set_up(x, steps=steps, heights=heights, scale=scale), x)) == steps


@given(st.integers(1, 5), st.sampled_from(["layer", "token"]), st.integers(0, 10_000))
def test_a_third_each_is_rounding_to_equal_levels(steps: int, scale: str, seed: int) -> None:
    """Balanced ternary: the nearest of 3^V levels, an oracle that knows nothing of residuals."""
    x = torch.randn(1, 3, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    neuron = set_up(x, steps=steps, scale=scale)
    ratio = sum(3.0**-v for v in range(steps))
    a = x.abs().amax(-1, keepdim=True) / ratio if scale == "token" else neuron.alpha.double().view(1, 1, 1)
    unit, top = a * 3.0 ** -(steps - 1), (3**steps - 1) // 2
    q = x / unit
    clear = ((q - q.floor() - 0.5).abs() > 1e-4) & ((q.abs() - top).abs() > 1e-4)  # no ties
    expected = q.round().clamp(-top, top) * unit
    torch.testing.assert_close(neuron(x)[clear], expected[clear], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("divisor", [3.0, 2.0])
def test_gradient_against_autograd(divisor: float) -> None:
    x = torch.randn(2, 8, 16, dtype=torch.float64) * 3
    neuron = set_up(x, steps=2, divisor=divisor, alpha="learnable").double()
    upstream = torch.randn_like(x)
    ours = x.clone().requires_grad_()
    neuron(ours).backward(upstream)
    a = neuron.alpha.detach()[:, None, None]
    reach = a * (1 + 1 / divisor)
    leaf = x.clone().requires_grad_()
    torch.minimum(torch.maximum(leaf, -reach), reach).backward(upstream)
    torch.testing.assert_close(ours.grad, leaf.grad)
    # LSQ: a scale multiplies whole levels, so inside its slope is level - x / a, outside the highest level.
    inside = x.abs() <= reach
    slope = torch.where(inside, (neuron(x).detach() - x) / a, x.sign() * (1 + 1 / divisor))
    highest = divisor + 1
    expected = (upstream * slope).sum((1, 2)) / math.sqrt(x[0].numel() * highest)
    assert neuron.alpha.grad is not None
    torch.testing.assert_close(neuron.alpha.grad, expected, rtol=1e-5, atol=1e-8)


def test_first_height_is_k_times_the_mean_magnitude() -> None:
    x = torch.randn(2, 4, 32)
    neuron = set_up(x, k=4.0, steps=3, heights="data")
    torch.testing.assert_close(neuron.alpha, 4 * x.abs().mean((1, 2)))
    rest = x[1] - (x[1] / neuron.alpha[1]).round().clamp(-1, 1) * neuron.alpha[1]
    torch.testing.assert_close(neuron.ratios[1, 1] * neuron.alpha[1], 4 * rest.abs().mean())


def test_events_of_a_gaussian() -> None:
    """About 0.9 events a value at k = 2.5, two steps (the probe on MiniLM had 0.86 to 0.92)."""
    x = torch.randn(1, 64, 1024)
    events = (set_up(x, steps=2, k=2.5).unfold(x) != 0).float().mean().item() * 2
    assert 0.8 < events < 1.0


def test_tokens_of_zeros_stay_silent() -> None:
    x = torch.zeros(1, 2, 3, 8)
    x[0, 0, 0] = torch.randn(8)
    out = Residual(T=1, scale="token", steps=3)(x)
    assert torch.isfinite(out).all()
    assert not out[0, 1].any()


def test_the_largest_value_of_a_token_has_a_gradient() -> None:
    x = torch.randn(1, 64, 32, requires_grad=True)
    for divisor in (3.0, 2.5):
        (grad,) = torch.autograd.grad(Residual(1, steps=4, scale="token", divisor=divisor)(x).sum(), x)
        assert bool((grad == 1).all())


def test_limits_are_the_lowest_and_highest_level() -> None:
    x = 100 * torch.randn(1, 4, 64)
    for divisor in (3.0, 2.0):
        neuron = set_up(x, steps=2, divisor=divisor)
        lowest, highest = neuron.limits(x)  # type: ignore[misc]
        y = neuron(10 * x)
        torch.testing.assert_close(y.max(), highest.flatten()[0])
        torch.testing.assert_close(y.min(), lowest.flatten()[0])


@pytest.mark.parametrize("setting", [{"heights": "data"}, {"alpha": "learnable"}])
def test_settings_without_an_effect_are_refused(setting: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="each token sets its heights itself"):
        Residual(1, scale="token", **setting)  # type: ignore[arg-type]
