"""LIF with the arctan surrogate, against its equations and against SpikingJelly."""

from __future__ import annotations

import math

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from spikelm.neurons.kernels.surrogates import arctan_slope
from spikelm.neurons.lif_atan import LIFAtan


@given(
    T=st.integers(1, 6),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 7)),
    seed=st.integers(0, 10**6),
    tau=st.floats(1.1, 10),
    theta=st.floats(0.2, 2),
)
def test_matches_the_reference(T, shape, seed, tau, theta) -> None:
    torch.manual_seed(seed)
    x = (2 * torch.randn(T, *shape, dtype=torch.float64)).requires_grad_()
    ours, theirs = LIFAtan(T, tau=tau, theta=theta)(x), reference.lif_atan(x, tau, theta)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for a, b in zip(reference.gradients(ours, [x]), reference.gradients(theirs, [x]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("T", [1, 4])
def test_matches_spikingjelly(T: int) -> None:
    based = pytest.importorskip("spikingjelly.activation_based")
    from spikingjelly.activation_based import functional, neuron, surrogate

    assert based is not None
    node = neuron.LIFNode(
        tau=2.0,
        decay_input=True,
        v_reset=0.0,
        detach_reset=True,
        surrogate_function=surrogate.ATan(2.0),
        step_mode="m",
    )
    x = (3 * torch.randn(T, 8, 40, dtype=torch.float64)).requires_grad_()
    functional.reset_net(node)
    theirs, ours = node(x), LIFAtan(T)(x)
    assert torch.equal(ours.detach(), theirs.detach())
    assert ours.detach().any()
    for a, b in zip(reference.gradients(ours, [x]), reference.gradients(theirs, [x]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_surrogate_is_one_at_the_threshold() -> None:
    slope = arctan_slope(torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64))
    assert slope[0] == 1
    torch.testing.assert_close(slope[1:], torch.full((2,), 1 / (1 + math.pi**2), dtype=torch.float64))
    assert slope[1].item() == pytest.approx(0.0920, abs=5e-5)


def test_smallest_constant_drive_that_ever_fires() -> None:
    """The potential climbs through .5, .75, .875, .9375 of a constant input."""
    neuron = LIFAtan(4)
    below, above = (neuron(torch.full((4, 1, 1), x)) for x in (1.0666, 1.0667))
    assert not below.any()
    assert above.flatten().tolist() == [0, 0, 0, 1]


def test_firing_rates_under_constant_drive() -> None:
    x = torch.randn(400_000).expand(4, -1)[:, None].contiguous()
    rates = LIFAtan(4)(x).flatten(1).double().mean(1)
    wanted = torch.tensor([0.023, 0.091, 0.058, 0.108], dtype=torch.float64)
    torch.testing.assert_close(rates, wanted, rtol=0, atol=0.002)
