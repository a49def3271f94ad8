"""Activations of the low-bit systems against plain loops and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from spikelm.errors import SpikeLMError
from spikelm.neurons.elastic import Elastic
from spikelm.neurons.sign import Sign
from spikelm.neurons.ternary_activation import TernaryActivation
from spikelm.neurons.uniform_activation import UniformActivation


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def elastic(site: str, a: float, **options: object) -> Elastic:
    neuron = Elastic(1, **options).double()  # type: ignore[arg-type]
    neuron.site = f"encoder.layer.0.{site}"
    neuron.fit_to(4)
    with torch.no_grad():
        neuron.alpha.fill_(a)
        neuron.alpha_ready.fill_(True)
    return neuron


def level_of(q: float, low: int, high: int) -> float:
    if (low, high) == (-1, 1):
        return 1.0 if q >= 0 else -1.0
    return float(np.round(min(max(q, low), high)))


SITES = [
    ("qkv_in", 1, -1, 1),
    ("ffn2_in", 1, 0, 1),
    ("attn_probs", 1, 0, 1),
    ("key_out", 2, -2, 1),
    ("ffn2_in", 2, 0, 3),
]


@pytest.mark.parametrize(("site", "width", "low", "high"), SITES)
def test_elastic_forward_gradient_mask_and_scale_gradient(site: str, width: int, low: int, high: int) -> None:
    a = 0.8
    values = [-2.5, -1.2, -0.8, -0.5, -0.1, 0.0, 0.3, 0.4, 0.41, 0.7, 0.8, 1.1, 2.9, 3.5]
    grads = [0.3 * i - 2 for i in range(len(values))]
    x = torch.tensor(values, dtype=torch.float64)[None].requires_grad_()
    neuron = elastic(site, a, width=width, shift=False)
    out = neuron(x)
    out.backward(torch.tensor(grads, dtype=torch.float64)[None])
    scale = 0.0
    for i, (v, g) in enumerate(zip(values, grads, strict=True)):
        q = v / a
        level = level_of(q, low, high)
        inside = low <= q <= high
        assert float(out[0, i].detach()) == pytest.approx(a * level), v
        assert x.grad is not None
        assert float(x.grad[0, i]) == pytest.approx(g if inside else 0.0), v
        slope = level if (low, high) == (-1, 1) else (level - q if inside else level)
        scale += g * slope
    assert neuron.alpha.grad is not None
    assert float(neuron.alpha.grad) == pytest.approx(scale / math.sqrt(len(values) * high))


def test_elastic_amplitude_comes_from_the_first_batch_and_waits_for_it() -> None:
    x = random(1, 3, 4)
    for site, factor in (("qkv_in", 2.0), ("attn_probs", 4.0)):
        neuron = Elastic(1).double()
        neuron.site = site
        with pytest.raises(SpikeLMError, match="not set yet"):
            neuron.eval()(x)
        neuron.train()(x)
        assert float(neuron.alpha) == pytest.approx(factor * np.abs(x.numpy()).mean())
        neuron(100 * x)
        assert float(neuron.alpha) == pytest.approx(factor * np.abs(x.numpy()).mean()), "it learns by gradient only"


def test_elastic_shifts_inputs_of_linears_channel_by_channel() -> None:
    neuron = elastic("ffn1_in", 1.0)
    assert neuron.shift is not None
    with torch.no_grad():
        neuron.shift.copy_(torch.tensor([0.0, 5.0, -5.0, 0.0]))
    assert neuron(torch.tensor([[[-0.5, -0.5, 0.5, 0.5]]], dtype=torch.float64)).tolist() == [[[-1, 1, -1, 1]]]
    assert elastic("key_out", 1.0).shift is None


def test_sign_has_two_levels_and_a_clipped_gradient() -> None:
    x = torch.tensor([[-3.0, -1.0, -0.2, 0.0, 0.9, 1.1]], requires_grad=True)
    out = Sign(1)(x)
    out.sum().backward()
    assert out.tolist() == [[-1, -1, -1, 1, 1, 1]]
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 1, 1, 0]]


def test_ternary_activations_have_a_scale_of_their_own_at_each_step() -> None:
    x = 0.3 * random(2, 3, 5)
    found = TernaryActivation(2)(x)
    for values, levels in zip(x.numpy(), found.numpy(), strict=True):
        size = np.abs(values)
        kept = size > 0.7 * size.mean()
        np.testing.assert_allclose(levels, np.where(kept, size[kept].mean() * np.sign(values), 0.0))


def test_uniform_scale_is_a_moving_average_of_the_largest_value() -> None:
    neuron = UniformActivation(1, decay=0.9).double().train()
    batches = [random(1, 4, 4, seed=seed) for seed in range(4)]
    largest = None
    for x in batches:
        out = neuron(x)
        top = float(x.abs().max())
        largest = top if largest is None else 0.9 * largest + 0.1 * top
        step = largest / 127
        np.testing.assert_allclose(out.numpy(), np.clip(np.round(x.numpy() / step), -127, 127) * step, atol=1e-12)
    before = neuron.alpha.clone()
    neuron.eval()(100 * batches[0])
    assert torch.equal(neuron.alpha, before), "it only follows in training"
