"""Phase coding against SpikingLLM's tensors."""

from __future__ import annotations

import pytest
import torch
from golden import assert_unfolds, golden, needs_golden
from torch import nn

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.neurons.unfolding.phase import Phase, phase_code


@needs_golden
def test_the_released_fit_has_the_released_code_and_gradients() -> None:
    g = golden("phase_coding")
    leaves = {name: g[name].clone().requires_grad_() for name in ("x", "d", "h", "theta", "tau", "v0")}
    spikes, y = phase_code(genotype=g["genotype"].tolist(), **leaves)
    assert torch.equal(spikes.detach().view_as(g["spikes"]), g["spikes"])
    torch.testing.assert_close(y, g["y"], rtol=1e-6, atol=1e-6)
    y.backward(g["grad_out"])
    for name, leaf in leaves.items():
        torch.testing.assert_close(leaf.grad, g[f"grad_{name}"], rtol=1e-6, atol=1e-6)


@needs_golden
def test_the_edges_of_base_two_are_the_released_ones() -> None:
    g = golden("phase_coding")
    x = g["edge"].clone().requires_grad_()
    d, h, theta = (torch.full((1,), 2.0, requires_grad=True) for _ in range(3))
    spikes, y = phase_code(x, [0] * 4, d, h, theta, g["edge_tau"], g["edge_v0"])
    assert torch.equal(spikes.detach().view_as(g["edge_spikes"]), g["edge_spikes"])
    assert torch.equal(y.detach(), g["edge_y"])
    y.backward(g["edge_grad_out"])
    for name, leaf in {"x": x, "d": d, "h": h, "theta": theta}.items():
        torch.testing.assert_close(leaf.grad, g[f"edge_grad_{name}"], rtol=1e-6, atol=1e-6)


@needs_golden
@pytest.mark.parametrize("learnable", [True, False])
def test_the_neuron_gives_the_released_edges(learnable: bool) -> None:
    g = golden("phase_coding")
    neuron = Phase(1, steps=4, learnable=learnable)
    neuron.alpha.copy_(g["edge_tau"])
    neuron.alpha_ready.fill_(True)
    assert torch.equal(neuron(g["edge"]).detach(), g["edge_y"])


@pytest.mark.parametrize(("learnable", "grains"), [(True, 1), (True, 3), (False, 1)])
def test_it_unfolds(learnable: bool, grains: int) -> None:
    neuron = Phase(2, grains=grains, learnable=learnable)
    x = torch.randn(2, 3, 5, 8)
    neuron(x)
    if learnable:
        with torch.no_grad():
            neuron.d.add_(0.01 * torch.arange(grains))
    steps = assert_unfolds(neuron, torch.cat([x, 3 * x, 0 * x], dim=1))
    assert neuron.unfolds
    assert len(steps) == 8


def test_the_error_is_half_a_last_step_inside_the_range() -> None:
    neuron = Phase(1)
    x = torch.randn(1, 4, 64)
    error = (neuron(x) - x).abs() / neuron.alpha
    assert float(error[x.abs() < neuron.alpha * (1 - 2.0**-8)].max()) <= 2.0**-9 + 1e-6


def test_the_gradient_passes_inside_the_range_unless_the_bases_learn() -> None:
    neuron = Phase(1)
    neuron(torch.tensor([[[1.0, -1.0]]]))
    x = torch.tensor([[[0.5, 0.99, -0.99, 1.5, -2.0]]], requires_grad=True)
    neuron(x).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1, 1, 1, 0, 0]
    assert not list(neuron.parameters())


def test_learned_bases_are_parameters_with_a_gradient() -> None:
    neuron = Phase(1, grains=2, learnable=True)
    neuron(torch.randn(1, 2, 8)).square().sum().backward()
    for base in (neuron.d, neuron.h, neuron.theta):
        assert isinstance(base, nn.Parameter)
        assert base.grad is not None
        assert bool(base.grad.ne(0).all())


def test_grains_share_the_steps_in_order() -> None:
    assert Phase(1, steps=8, grains=3, learnable=True).genotype == (0, 0, 0, 1, 1, 1, 2, 2)
    with pytest.raises(SpikeLMError, match="grains"):
        Phase(1, steps=2, grains=3)


def test_grains_that_do_not_learn_are_refused() -> None:
    with pytest.raises(ConfigError, match="only where they learn"):
        Phase(1, grains=2)


def test_forgetting_the_range_keeps_learned_bases() -> None:
    neuron = Phase(1, grains=2, learnable=True)
    neuron(torch.randn(1, 2, 8))
    with torch.no_grad():
        neuron.d.fill_(1.9)
    neuron.forget()
    assert not neuron.ready
    assert neuron.d.tolist() == pytest.approx([1.9, 1.9])
