"""What holds for every neuron: no state, few values, any T, half precision, independent copies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spikelm.config import trust
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.neurons import Neuron, build_neuron

NEURONS = {
    "lif": ClassSpec("spikelm.neurons.lif.LIF"),
    "lif_round": ClassSpec("spikelm.neurons.lif.LIF", {"fire": "round"}),
    "lif_atan": ClassSpec("spikelm.neurons.lif_atan.LIFAtan"),
    "psn": ClassSpec("spikelm.neurons.psn.PSN"),
    "bispike": ClassSpec("spikelm.neurons.bispike.BiSpike"),
    "learnable": ClassSpec("spikelm.neurons.bispike.BiSpike", {"alpha": "learnable"}),
    "uni": ClassSpec("spikelm.neurons.bispike.BiSpike", {"direction": "uni"}),
    "fixed": ClassSpec("spikelm.neurons.bispike.BiSpike", {"elastic": False}),
}
every_neuron = pytest.mark.parametrize("name", NEURONS)


def make(name: str, T: int, **extra: Any) -> Neuron:
    return build_neuron(NEURONS[name], T, **extra)


@every_neuron
def test_no_state_survives_the_call(name: str) -> None:
    neuron, x = make(name, 4), torch.randn(4, 6, 10, requires_grad=True)
    neuron(x)
    facts = {key: type(value) for key, value in vars(neuron).items()}
    buffers = copy.deepcopy(neuron.state_dict())
    results = []
    for _ in range(3):
        spikes = neuron(x)
        results.append((spikes.detach(), torch.autograd.grad(spikes.square().sum(), x)[0]))
        neuron(torch.randn(4, 2, 10))
    for spikes, grad in results[1:]:
        assert torch.equal(spikes, results[0][0])
        assert torch.equal(grad, results[0][1])
    assert {key: type(value) for key, value in vars(neuron).items()} == facts
    assert all(torch.equal(value, buffers[key]) for key, value in neuron.state_dict().items())


@given(
    name=st.sampled_from(sorted(NEURONS)),
    T=st.integers(1, 6),
    k=st.floats(0.01, 50),
    seed=st.integers(0, 999),
)
def test_at_most_three_values_for_any_k_and_T(name: str, T: int, k: float, seed: int) -> None:
    torch.manual_seed(seed)
    extra = {"k": k} if "BiSpike" in NEURONS[name].target else {}
    neuron = build_neuron(NEURONS[name].having(**extra), T)
    spikes = neuron(torch.randn(T, 5, 9))
    assert spikes.shape == (T, 5, 9)
    assert all(len(step.unique()) <= 3 for step in spikes)


@every_neuron
def test_half_precision_has_a_single_precision_membrane(name: str) -> None:
    torch.manual_seed(1)
    neuron = make(name, 4)
    x = (2 * torch.randn(4, 64, 32)).bfloat16().requires_grad_()
    wide = x.detach().float().requires_grad_()
    spikes, wanted = neuron(x), neuron(wide)
    assert spikes.dtype == torch.bfloat16
    assert torch.equal(spikes.ne(0), wanted.ne(0))
    grad = torch.randn(4, 64, 32).bfloat16()
    (got,) = torch.autograd.grad(spikes, x, grad)
    (want,) = torch.autograd.grad(wanted, wide, grad.float())
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, rtol=2e-2, atol=1e-3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(neuron(wide), wanted)


@every_neuron
def test_double_precision_stays_double(name: str) -> None:
    assert make(name, 2)(torch.randn(2, 3, 4, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("name", ["lif", "lif_round", "bispike", "learnable", "uni", "fixed"])
def test_without_memory_a_step_sees_only_itself(name: str) -> None:
    neuron, x = make(name, 4, memory=False), torch.randn(4, 6, 10)
    before = neuron(x)
    other = x.clone()
    other[1] = torch.randn(6, 10)
    after = neuron(other)
    assert [torch.equal(before[t], after[t]) for t in range(4)] == [True, False, True, True]


@every_neuron
def test_time_runs_forward(name: str) -> None:
    """A later input changes no earlier spike; PSN alone mixes all steps by design."""
    neuron, x = make(name, 4), 2 * torch.randn(4, 16, 10)
    before = neuron(x)
    other = x.clone()
    other[3] = 5 * torch.randn(16, 10)
    same = torch.equal(before[:3], neuron(other)[:3])
    assert same or name == "psn"


@every_neuron
def test_a_copy_is_independent(name: str) -> None:
    neuron = make(name, 2)
    neuron(torch.randn(2, 4, 4))
    other = copy.deepcopy(neuron)
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            tensor.zero_()
    assert all(value.any() for value in neuron.state_dict().values())


@every_neuron
def test_says_what_it_is(name: str) -> None:
    assert "T=3" in repr(make(name, 3))


def test_a_base_neuron_does_not_fire() -> None:
    with pytest.raises(TypeError, match="does not say how it fires"):
        Neuron(1)(torch.zeros(1, 1, 1))


def test_classes_come_only_from_allowed_packages() -> None:
    with pytest.raises(ConfigError, match="outside the allowed packages"):
        build_neuron(ClassSpec("os.path.join"))
    with pytest.raises(ConfigError, match="cannot be imported"):
        build_neuron(ClassSpec("spikelm.neurons.lif.NoSuchNeuron"))


def test_a_package_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spikelm.config.trust._trusted", {"spikelm"})
    trust.trust("torch")
    assert isinstance(build_neuron(ClassSpec("torch.nn.Identity")), torch.nn.Identity)
