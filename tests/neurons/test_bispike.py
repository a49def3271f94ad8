"""The elastic bi-spike against its equations, and the numbers that follow from them without training."""

from __future__ import annotations

import math

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from spikelm.neurons.bispike import BiSpike

RATIOS = torch.tensor([-1.2, -1, -0.6, -0.5, 0, 0.5, 0.6, 1, 1.2], dtype=torch.float64)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 7))


def ready(neuron: BiSpike, alpha: torch.Tensor) -> BiSpike:
    """The neuron with amplitudes put in by hand, in double precision."""
    neuron.double()
    with torch.no_grad():
        neuron.alpha.copy_(alpha)
        neuron.alpha_ready.fill_(True)
    return neuron


@given(
    T=st.integers(1, 6),
    shape=SHAPES,
    seed=st.integers(0, 10**6),
    size=st.floats(0.1, 5),
    rule=st.fixed_dictionaries(
        {
            "direction": st.sampled_from(["bi", "uni"]),
            "fire": st.sampled_from(["round", "paper"]),
            "reset": st.sampled_from(["code", "paper", "normalized"]),
            "beta": st.floats(0.05, 0.9),
            "memory": st.booleans(),
        }
    ),
    learnable=st.booleans(),
)
def test_matches_the_reference(T, shape, seed, size, rule, learnable) -> None:
    torch.manual_seed(seed)
    x = (size * torch.randn(T, *shape, dtype=torch.float64)).requires_grad_()
    alpha = (size * (0.3 + torch.rand(T, dtype=torch.float64))).requires_grad_()
    neuron = ready(BiSpike(T, alpha="learnable" if learnable else "frozen", **rule), alpha)
    ours, theirs = neuron(x), reference.bispike(x, alpha, **rule)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    inputs = [x, neuron.alpha] if learnable else [x]
    wanted = reference.gradients(theirs, [x, alpha] if learnable else [x])
    for a, b in zip(reference.gradients(ours, inputs), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


@given(
    T=st.integers(1, 6),
    k=st.floats(0.1, 6),
    seed=st.integers(0, 10**6),
    reset=st.sampled_from(["code", "paper", "normalized"]),
    memory=st.booleans(),
    direction=st.sampled_from(["bi", "uni"]),
    fire=st.sampled_from(["round", "paper"]),
)
def test_amplitudes_are_k_times_the_mean_membrane(T, k, seed, reset, memory, direction, fire) -> None:
    torch.manual_seed(seed)
    x = torch.rand(T, 3, 8, dtype=torch.float64) - 0.4
    rule = {"reset": reset, "memory": memory, "direction": direction, "fire": fire}
    neuron = BiSpike(T, k=k, **rule).double()
    spikes = neuron(x)
    torch.testing.assert_close(neuron.alpha, reference.amplitudes(x, k, **rule), rtol=1e-9, atol=1e-12)
    assert all(len(spikes[t].unique()) <= 3 for t in range(T))


@pytest.mark.parametrize("a", [0.8, 1.0, 3.0])
def test_straight_through_table(a: float) -> None:
    x = (a * RATIOS)[None].requires_grad_()
    neuron = ready(BiSpike(1), torch.tensor([a], dtype=torch.float64))
    spikes = neuron(x)
    assert torch.equal(spikes.detach()[0], neuron.alpha * torch.tensor([-1.0, -1, -1, 0, 0, 0, 1, 1, 1]))
    spikes.sum().backward()
    assert x.grad is not None
    # a * 1.2 rounded may not be 1.2 a, but it is never within a rounding error of a
    assert x.grad[0].tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 0]


def test_printed_threshold_row() -> None:
    spikes = ready(BiSpike(1, fire="paper"), torch.ones(1))(RATIOS[None])
    assert spikes[0].tolist() == [-1, 0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "ratio, slope", [(-1.2, -1), (-0.6, -0.4), (0.5, -0.5), (0.6, 0.4), (1, 0), (1.2, 1), (-1, 0), (0, 0)]
)
def test_lsq_table(ratio: float, slope: float) -> None:
    neuron = ready(BiSpike(1, alpha="learnable"), torch.ones(1))
    neuron(torch.full((1, 3, 3), ratio, dtype=torch.float64)).sum().backward()
    assert neuron.alpha.grad is not None
    assert neuron.alpha.grad.item() == pytest.approx(slope * 9 / math.sqrt(9), abs=1e-12)


@pytest.mark.parametrize("m, spike, left", [(-1.0, -0.8, -0.4), (0.3, 0.0, 0.06), (1.0, 0.8, 0.0)])
def test_reset_table(m: float, spike: float, left: float) -> None:
    """No spike leaves a quarter of a m, a positive spike nothing, a negative one twice that quarter."""
    neuron = ready(BiSpike(2, alpha="learnable"), torch.tensor([0.8, 100.0], dtype=torch.float64))
    spikes = neuron(torch.tensor([[[m]], [[0.0]]], dtype=torch.float64))
    assert spikes[0].item() == pytest.approx(spike)
    spikes[1].sum().backward()  # silent inside the range: the LSQ slope is -m_2 / a_2
    assert -100 * neuron.alpha.grad[1].item() == pytest.approx(left, abs=1e-12)


@pytest.mark.parametrize("reset", ["code", "paper", "normalized"])
@pytest.mark.parametrize("scale", [0.01, 0.5, 4.0])
def test_one_step_does_not_see_the_scale(reset: str, scale: float) -> None:
    x = torch.randn(1, 64, 16, dtype=torch.float64)
    levels = [torch.sign(BiSpike(1, reset=reset).double()(c * x)) for c in (1, scale)]
    assert torch.equal(*levels)


@pytest.mark.parametrize("reset, invariant", [("code", False), ("paper", False), ("normalized", True)])
def test_only_the_normalized_reset_ignores_the_scale(reset: str, invariant: bool) -> None:
    x = torch.randn(4, 64, 16, dtype=torch.float64)
    levels = [torch.sign(BiSpike(4, reset=reset).double()(c * x)) for c in (1, 4)]
    assert torch.equal(*levels) is invariant


def test_one_step_is_the_same_under_every_reset() -> None:
    x = torch.randn(1, 9, 5)
    spikes = [BiSpike(1, reset=reset)(x) for reset in ("code", "paper", "normalized")]
    assert torch.equal(spikes[0], spikes[1])
    assert torch.equal(spikes[0], spikes[2])


def test_firing_rates_and_amplitudes_under_constant_drive() -> None:
    x = torch.randn(400_000).expand(4, -1)[:, None].contiguous()
    for reset, rates, alphas in (
        ("code", [0.425, 0.345, 0.290, 0.232], [1.595, 2.232, 3.184, 5.283]),
        ("normalized", [0.425, 0.465, 0.442, 0.459], None),
    ):
        neuron = BiSpike(4, reset=reset)
        fired = neuron(x).ne(0).flatten(1).double().mean(1)
        torch.testing.assert_close(fired, torch.tensor(rates, dtype=torch.float64), rtol=0.01, atol=0.002)
        if alphas:
            torch.testing.assert_close(neuron.alpha, torch.tensor(alphas), rtol=0.01, atol=0)


@pytest.mark.parametrize(
    "k, gaussian, laplace", [(2, 0.424937, 0.367879), (3, 0.231374, 0.22313), (4, 0.11054, 0.135335)]
)
def test_firing_rate_in_closed_form(k: float, gaussian: float, laplace: float) -> None:
    normal = torch.randn(400_000)
    for x, rate in ((normal, gaussian), (torch.distributions.Laplace(0.0, 1.0).sample((400_000,)), laplace)):
        assert BiSpike(1, k=k)(x[None, None]).ne(0).double().mean().item() == pytest.approx(rate, abs=0.004)
    at_a = BiSpike(1, k=k / 2, fire="paper")(normal[None, None]).ne(0)
    assert torch.equal(at_a, BiSpike(1, k=k)(normal[None, None]).ne(0))  # a/2 at k is a at k/2


def test_fixed_amplitude_is_one_and_never_set() -> None:
    neuron = BiSpike(2, elastic=False).eval()
    assert set(neuron(3 * torch.randn(2, 50, 4)).unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert neuron.alpha.tolist() == [1, 1]


def test_amplitude_merges_into_the_weights() -> None:
    neuron, linear = BiSpike(3).double(), nn.Linear(8, 5).double()
    spikes = neuron(torch.randn(3, 6, 8, dtype=torch.float64))
    for t, a in enumerate(neuron.alpha):
        merged = nn.functional.linear(spikes[t] / a, a * linear.weight, linear.bias)
        torch.testing.assert_close(linear(spikes[t]), merged, rtol=1e-12, atol=1e-12)
