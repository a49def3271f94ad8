"""LIF with the clip straight-through estimator."""

from __future__ import annotations

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from spikelm.neurons.lif import LIF


@given(
    T=st.integers(1, 6),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 7)),
    seed=st.integers(0, 10**6),
    rule=st.fixed_dictionaries(
        {
            "beta": st.floats(0.05, 0.9),
            "theta": st.one_of(st.just(1.0), st.floats(0.2, 3)),
            "fire": st.sampled_from(["threshold", "round"]),
            "memory": st.booleans(),
        }
    ),
)
def test_matches_the_reference(T, shape, seed, rule) -> None:
    torch.manual_seed(seed)
    x = (1.5 * torch.randn(T, *shape, dtype=torch.float64)).requires_grad_()
    ours, theirs = LIF(T, **rule)(x), reference.lif(x, **rule)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for a, b in zip(reference.gradients(ours, [x]), reference.gradients(theirs, [x]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("fire, first", [("threshold", 1.0), ("round", 0.6)])
def test_gradient_is_one_on_zero_to_one(fire: str, first: float) -> None:
    x = torch.tensor([[[-0.1, 0.0, 0.4, 0.5, 0.6, 1.0, 1.1]]], requires_grad=True)
    spikes = LIF(1, fire=fire)(x)
    spikes.sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [0, 1, 1, 1, 1, 1, 0]
    assert spikes.flatten().tolist() == [float(v >= first) for v in [-0.1, 0, 0.4, 0.5, 0.6, 1.0, 1.1]]


def test_spikes_are_zero_or_one_whatever_theta() -> None:
    spikes = LIF(4, theta=0.3)(torch.randn(4, 100, 10))
    assert set(spikes.unique().tolist()) == {0.0, 1.0}


def test_silent_membrane_leaks_and_a_spike_empties_it() -> None:
    neuron = LIF(3)
    assert neuron(torch.full((3, 1, 1), 0.8)).flatten().tolist() == [0, 1, 0]  # .8, .8 + .2, .8
