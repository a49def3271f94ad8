"""The parallel spiking neuron, against its equation and against SpikingJelly."""

from __future__ import annotations

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from spikelm.neurons.psn import PSN


@given(
    T=st.integers(1, 6),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 7)),
    seed=st.integers(0, 10**6),
    theta=st.floats(0.1, 2),
)
def test_matches_the_reference(T, shape, seed, theta) -> None:
    torch.manual_seed(seed)
    x = (3 * torch.randn(T, *shape, dtype=torch.float64)).requires_grad_()
    neuron = PSN(T, theta=theta).double()
    inputs = [x, neuron.weight, neuron.bias]
    ours, theirs = neuron(x), reference.psn(*inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for a, b in zip(reference.gradients(ours, inputs), reference.gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("T", [1, 4])
def test_matches_spikingjelly(T: int) -> None:
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import neuron, surrogate

    theirs = neuron.PSN(T=T, surrogate_function=surrogate.ATan(2.0)).double()
    ours = PSN(T).double()
    theirs.load_state_dict(ours.state_dict())  # same names, same shapes
    x = (4 * torch.randn(T, 8, 40, dtype=torch.float64)).requires_grad_()
    a, b = ours(x), theirs(x)
    assert torch.equal(a.detach(), b.detach())
    assert a.detach().any()
    mine = reference.gradients(a, [x, *ours.parameters()])
    for got, want in zip(mine, reference.gradients(b, [x, *theirs.parameters()]), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def test_starts_as_published() -> None:
    weights = torch.stack([PSN(4).weight.detach() for _ in range(200)])
    assert weights.abs().max() <= 0.5
    assert weights.abs().max() > 0.49
    assert PSN(4).bias.flatten().tolist() == [-1] * 4
    assert sum(p.numel() for p in PSN(4).parameters()) == 20


def test_one_step_is_a_learned_threshold() -> None:
    neuron = PSN(1)
    with torch.no_grad():
        neuron.weight.fill_(2.0)
    assert neuron(torch.tensor([[0.4, 0.5, 0.6]])).tolist() == [[0, 1, 1]]
