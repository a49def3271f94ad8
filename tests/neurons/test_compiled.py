"""Compiled kernels: the equations without writing in place, no graph break, and what happens without a compiler."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product

import pytest
import torch

from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels import compiled
from spikelm.neurons.kernels.clip import ClipSpike
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.lif import LIF

RULES = [
    ClipRule(bidirectional, fire, beta, scaled, symmetric)  # type: ignore[arg-type]
    for bidirectional, fire, (beta, scaled, symmetric) in product(
        (True, False), ("round", "above"), ((0.25, True, False), (0.25, False, True), (0.0, True, False))
    )
] + [ClipRule(False, "reach", 0.25, False, False)]


@pytest.mark.parametrize("T", [1, 3, 4])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_compiled_equations_are_those_of_the_eager_kernel(
    monkeypatch: pytest.MonkeyPatch, rule: ClipRule, T: int
) -> None:
    """`run` and `gradient` as they are, before a compiler sees them."""
    plain = partial(compiled.run, rule=rule), partial(compiled.gradient, rule=rule)
    monkeypatch.setattr(compiled, "kernels", lambda rule: plain)
    x, alpha, grad = torch.randn(T, 6, 8), torch.rand(T) + 0.5, torch.randn(T, 6, 8)
    found = []
    for apply in (compiled.CompiledClip.apply, lambda *args: ClipSpike.apply(*args, True)):
        values = x.clone().requires_grad_()
        spikes, levels = apply(values, alpha, rule)
        spikes.backward(grad)
        found.append((spikes.detach(), levels, values.grad))
    for ours, eager in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=1e-6)


@pytest.mark.parametrize("neuron", [BiSpike(2), LIF(2)])
def test_no_graph_break(neuron: BiSpike | LIF) -> None:
    """fullgraph=True raises at the first one; the backend that only traces needs no C++ compiler."""
    neuron(torch.randn(2, 4, 8))
    options = {"fullgraph": True, "dynamic": True, "backend": "eager"}
    run = torch.compile(partial(compiled.run, rule=neuron.rule), **options)
    gradient = torch.compile(partial(compiled.gradient, rule=neuron.rule), **options)
    x, alpha = torch.randn(2, 2, 16), torch.ones(2)
    spikes, levels, masks = run(x, alpha)
    assert torch.equal(spikes, compiled.run(x, alpha, neuron.rule)[0])
    assert gradient(x, levels, masks, alpha).shape == x.shape


def test_a_process_may_compile_more_kernels_than_torch_would_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch counts what is compiled again of one function; a sweep over neurons and T is over its limit of 8."""
    compiled.kernels.cache_clear()
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", partial(compiler, backend="eager"))
    for rule, T in product(RULES[:4], (1, 2, 4)):
        x, alpha = torch.randn(T, 1, 8), torch.ones(T)
        run, gradient = compiled.kernels(rule)
        spikes, levels, masks = run(x, alpha)
        assert torch.equal(spikes, compiled.run(x, alpha, rule)[0])
        assert torch.equal(gradient(x, levels, masks, alpha), compiled.gradient(x, levels, masks, alpha, rule))
    compiled.kernels.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("T", [1, 4])
def test_compiled_neuron_equals_the_eager_one(T: int) -> None:
    neuron = BiSpike(T)
    x, grad = torch.randn(T, 4, 31, 16), torch.randn(T, 4, 31, 16)
    neuron(x)
    found = []
    for on in (False, True):
        neuron.compiled = on
        values = x.clone().requires_grad_()
        spikes = neuron(values)
        spikes.backward(grad)
        found.append((spikes.detach(), values.grad))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1], rtol=0, atol=1e-5)


def test_without_a_compiler_one_warning_for_each_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("CC", "no-such-compiler")
    compiled.can_compile.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert [compiled.can_compile(device) for device in ("cpu", "cpu", "cuda", "cuda")] == [False] * 4
    on_cpu, on_gpu = (str(warning.message) for warning in seen)
    assert "C++ compiler (no no-such-compiler)" in on_cpu
    assert "apt install g++" in on_cpu
    assert "a C compiler (no no-such-compiler)" in on_gpu
    compiled.can_compile.cache_clear()


@pytest.mark.parametrize("make", [LIF, BiSpike])
def test_nothing_waits_for_a_device(make: type[BiSpike] | type[LIF]) -> None:
    """Tensors without data: whatever asks for a value raises."""
    neuron = make(4)
    neuron(torch.randn(4, 2, 8))
    neuron.to("meta")
    x = torch.randn(4, 2, 8, device="meta", requires_grad=True)
    neuron(x).sum().backward()
    assert x.grad.is_meta


def test_half_precision_keeps_membrane_and_amplitude_single() -> None:
    """In bf16 autocast: as if the rounded input were given in single precision."""
    x = torch.randn(4, 64, 64).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        neuron = BiSpike(4)
        spikes = neuron(x)
    exact = BiSpike(4)(x.float())
    assert spikes.dtype == torch.bfloat16
    assert neuron.alpha.dtype == torch.float32
    assert torch.equal(spikes, exact.bfloat16())
