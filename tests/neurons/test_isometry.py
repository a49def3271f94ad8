"""Section 4.4: lemmas 1 to 3, closed forms against samples and numeric integration."""

from __future__ import annotations

import math

import pytest
import torch
from isometry import alpha, bispike_moments, firing_rate, jacobian_moments, relu_moments
from scipy import integrate, stats

from spikelm.neurons.bispike import BiSpike

torch.set_num_threads(1)
LAWS = {"gaussian": stats.norm(), "laplace": stats.laplace()}


def gaussian(samples: int = 200_000) -> torch.Tensor:
    return torch.randn(1, samples, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("k", [1.0, 2.0, 3.5])
def test_lemma_1_and_firing_rates_by_numeric_integration(k: float, law: str) -> None:
    density = LAWS[law]
    mean_size = 2 * integrate.quad(lambda m: m * density.pdf(m), 0, math.inf)[0]
    assert alpha(k, law=law) == pytest.approx(k * mean_size)  # type: ignore[arg-type]
    assert alpha(k, 3.0, law) == pytest.approx(3 * k * mean_size)  # type: ignore[arg-type]
    assert firing_rate(k, law, "paper") == pytest.approx(2 * density.sf(k * mean_size))  # type: ignore[arg-type]
    assert firing_rate(k, law, "round") == pytest.approx(2 * density.sf(k * mean_size / 2))  # type: ignore[arg-type]


def test_golden_firing_rates() -> None:
    golden = {2: (0.110540, 0.135335, 0.424937, 0.367879), 3: (0.016681, 0.049787, 0.231374, 0.223130)}
    golden[4] = (0.001415, 0.018316, 0.110540, 0.135335)
    for k, expected in golden.items():
        ours = [firing_rate(k, law, fire) for fire in ("paper", "round") for law in ("gaussian", "laplace")]  # type: ignore[arg-type]
        assert ours == pytest.approx(expected, abs=1e-6)
    assert alpha(1) == pytest.approx(0.797885, abs=1e-6)


def test_alpha_of_a_neuron_is_lemma_1() -> None:
    neuron = BiSpike(T=1, k=3)
    neuron(2.5 * gaussian())
    assert neuron.alpha.item() == pytest.approx(alpha(3, 2.5), rel=0.01)


def test_lemma_2_relu() -> None:
    assert relu_moments(0.5) == (0.5, 0.25)
    assert jacobian_moments(torch.relu, gaussian()) == pytest.approx(relu_moments(0.5), abs=0.005)
    shifted = gaussian() + 0.5
    p = float((shifted > 0).double().mean())
    assert jacobian_moments(torch.relu, shifted) == pytest.approx(relu_moments(p))


def test_lemma_3_holds_for_the_printed_rule() -> None:
    neuron, x = BiSpike(T=1, k=2, fire="paper"), gaussian()
    moments = jacobian_moments(neuron, x)
    r = float((neuron(x) != 0).double().mean())
    assert moments == pytest.approx(bispike_moments(r))
    assert moments == pytest.approx((0.88946, 0.09832), abs=0.003)
    assert bispike_moments(0.1) == pytest.approx((0.9, 0.09))
    assert bispike_moments(0.3) == pytest.approx((0.7, 0.21))


def test_lemma_3_is_not_one_minus_r_for_the_released_rule() -> None:
    """Rounding fires beyond alpha/2 while the gradient stops beyond alpha: phi 0.8895, not 1 - 0.4249."""
    neuron, x = BiSpike(T=1, k=2, fire="round"), gaussian()
    moments = jacobian_moments(neuron, x)
    assert moments.phi == pytest.approx(1 - firing_rate(2, "gaussian", "paper"), abs=0.003)
    assert float((neuron(x) != 0).double().mean()) == pytest.approx(0.4249, abs=0.005)


def test_moments_see_more_than_zeros_and_ones() -> None:
    """f(x) = 2x: J J^T = 4 I; f(x) = x^2 / 2: J J^T = diag(x^2), of mean 1 and variance 2 for N(0, 1)."""
    assert jacobian_moments(lambda x: 2 * x, gaussian(10)) == (4.0, 0.0)
    assert jacobian_moments(lambda x: x.square() / 2, gaussian()) == pytest.approx((1, 2), rel=0.05)
