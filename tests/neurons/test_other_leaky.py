"""The neurons of SpikingFormer, SpikeBERT's words and SpikeGPT, against autograd through plain loops."""

from __future__ import annotations

import pytest
import reference
import torch
from torch import Tensor

from spikelm.errors import ConfigError
from spikelm.neurons.heaviside import Heaviside
from spikelm.neurons.lif_sigmoid import LIFSigmoid
from spikelm.neurons.lif_token import LIFToken


def same(ours: Tensor, theirs: Tensor, x: Tensor) -> None:
    assert ours.detach().any()
    assert not ours.detach().all()
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for a, b in zip(reference.gradients(ours, [x]), reference.gradients(theirs, [x]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


def sigmoid_step(u: Tensor, sharpness: float) -> Tensor:
    return reference.straight_through((u >= 0).to(u.dtype), torch.sigmoid(sharpness * u))


@pytest.mark.parametrize(
    ("T", "tau", "theta", "sharpness"), [(1, 2.0, 1.0, 4.0), (4, 2.0, 1.0, 4.0), (5, 1.5, 0.3, 2.0)]
)
def test_lif_with_the_sigmoid_surrogate(T: int, tau: float, theta: float, sharpness: float) -> None:
    torch.manual_seed(T)
    x = (3 * torch.randn(T, 4, 9, dtype=torch.float64)).requires_grad_()
    v, spikes = torch.zeros_like(x[0]), []
    for step in x:
        h = v + (step - v) / tau
        spikes.append(sigmoid_step(h - theta, sharpness))
        v = h * (1 - spikes[-1].detach())
    same(LIFSigmoid(T, tau=tau, theta=theta, sharpness=sharpness)(x), torch.stack(spikes), x)


@pytest.mark.parametrize("T", [1, 4])
def test_matches_spikingjelly(T: int) -> None:
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import functional, neuron, surrogate

    settings = {"tau": 2.0, "decay_input": True, "v_reset": 0.0, "detach_reset": True, "step_mode": "m"}
    node = neuron.LIFNode(surrogate_function=surrogate.Sigmoid(4.0), **settings)
    x = (3 * torch.randn(T, 8, 40, dtype=torch.float64)).requires_grad_()
    functional.reset_net(node)
    same(LIFSigmoid(T)(x), node(x), x)


def test_words_become_their_signs() -> None:
    x = torch.randn(1, 3, 5, 8, dtype=torch.float64).requires_grad_()
    same(Heaviside()(x), reference.arctan_step(x), x)
    assert Heaviside()(torch.zeros(1, 2, 2)).tolist() == [[[1, 1], [1, 1]]], "zero fires"


@pytest.mark.parametrize(("tau", "theta"), [(2.0, 1.0), (3.0, 0.4)])
def test_time_is_the_sequence_of_tokens_and_the_reset_has_a_gradient(tau: float, theta: float) -> None:
    torch.manual_seed(0)
    x = (2 * torch.randn(1, 3, 11, 6, dtype=torch.float64)).requires_grad_()
    v, spikes = torch.zeros_like(x[:, :, 0]), []
    for i in range(x.shape[2]):
        h = v + (x[:, :, i] - v) / tau
        spikes.append(reference.arctan_step(h - theta))
        v = h * (1 - spikes[-1])  # not detached
    same(LIFToken(tau=tau, theta=theta)(x), torch.stack(spikes, 2), x)


def test_token_by_token_it_fires_alike() -> None:
    neuron, x = LIFToken(), 3 * torch.randn(1, 2, 9, 5)
    v, spikes = torch.zeros(1, 2, 5), []
    for i in range(9):
        s, v = neuron.step(x[:, :, i], v)
        spikes.append(s)
    assert torch.equal(neuron(x), torch.stack(spikes, 2))


def test_tokens_leave_no_room_for_time_steps() -> None:
    with pytest.raises(ConfigError, match="T=4"):
        LIFToken(T=4)
