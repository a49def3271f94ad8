"""Every neuron and every quantiser by itself: values, gradients and firing rates on the device and in the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from spikelm.config.settings.specs import NeuronSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.neurons import Neuron, build_neuron
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.compiled import can_compile
from spikelm.training.device_check.comparison import (
    APART,
    FLIPS,
    SUMS,
    Check,
    Measured,
    NotHereError,
    apart,
    checked,
    firing_rate,
    relative,
    share_of,
)
from spikelm.weights.layers import build_quantizer

TIME_STEPS = (1, 4)
CPU = torch.device("cpu")
#: A code of many levels has as many thresholds, and values in bf16 lie exactly on some: ten of 32,768 were apart.
THRESHOLDS = 100


@dataclass(frozen=True)
class Passes:
    """What one forward and backward pass left behind; `inferred` is a second forward without gradients."""

    values: Tensor
    gradient: Tensor
    inferred: Tensor
    of_parameters: dict[str, Tensor] = field(default_factory=dict)


def neuron_checks(specs: Iterable[NeuronSpec], device: torch.device, shape: tuple[int, int, int]) -> Iterator[Check]:
    """Each neuron for T = 1 and 4 in single precision, and for the last T in bf16; `shape`: rows, tokens, channels.

    In bf16 only neurons whose levels are spikes, which keep their membranes in single precision; what a low-bit system
    rounds is rounded in the type it comes in, and no two devices agree on that.
    """
    for spec in specs:
        steps = [T for T in TIME_STEPS if _has_steps(spec, T)]
        for T in steps:
            yield checked("neuron", f"{spec.name} T={T}", _against_reference(spec, T, device, shape, torch.float32))
        if spec.spikes:
            name = f"{spec.name} T={steps[-1]} bf16"
            yield checked("neuron", name, _against_reference(spec, steps[-1], device, shape, torch.bfloat16))


def _has_steps(spec: NeuronSpec, T: int) -> bool:
    try:
        build_neuron(spec, T)
    except ConfigError:  # SpikeGPT's neuron counts time in tokens: it has one time step
        return False
    return True


def compiled_checks(
    specs: Iterable[NeuronSpec], device: torch.device, shape: tuple[int, int, int], steps: Iterable[int]
) -> Iterator[Check]:
    """Each neuron that has a compiled kernel against the same neuron in eager, on the same device."""
    for spec in specs:
        for T in steps:
            if _has_kernel(build_neuron(spec, T)):
                yield checked("compiled", f"{spec.name} T={T}", _against_eager(spec, T, device, shape))


def one_of_each_kernel(specs: Iterable[NeuronSpec]) -> list[NeuronSpec]:
    """The first neuron of every class that has a compiled kernel."""
    by_class = {spec.target: spec for spec in reversed(list(specs)) if _has_kernel(build_neuron(spec, 1))}
    return list(reversed(by_class.values()))


def quantizer_checks(specs: Iterable[QuantizerSpec], device: torch.device, size: int) -> Iterator[Check]:
    """Each quantiser on a matrix of this size."""
    for spec in specs:
        yield checked("weights", spec.name, _quantizer_against_reference(spec, device, size))


def _has_kernel(neuron: Neuron) -> bool:
    return isinstance(getattr(neuron, "rule", None), ClipRule) and not getattr(neuron, "learnable", False)


def _drawn(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same input and gradient for every device, rounded to the type before anybody computes with them."""
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(shape, generator=generator).to(dtype),
        torch.randn(shape, generator=generator).to(dtype),
    )


def _neuron_passes(neuron: Neuron, x: Tensor, grad: Tensor) -> Passes:
    """In training, where the first batch sets the amplitude, then once more as in inference."""
    leaf = x.clone().requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.dtype == torch.bfloat16):
        values = neuron.train()(leaf)
        with torch.no_grad():
            inferred = neuron.eval()(x)
    values.backward(grad.to(values.dtype))
    assert leaf.grad is not None
    gradients = {name: item.grad for name, item in neuron.named_parameters() if item.grad is not None}
    return Passes(values.detach(), leaf.grad, inferred, gradients)


def _neuron(spec: NeuronSpec, T: int, features: int) -> Neuron:
    torch.manual_seed(0)  # a neuron with random weights has the same everywhere
    neuron = build_neuron(spec, T)
    neuron.site = "encoder.layer.0.qkv_in"
    neuron.fit_to(features)
    return neuron


def _against_reference(
    spec: NeuronSpec, T: int, device: torch.device, shape: tuple[int, int, int], dtype: torch.dtype
) -> Callable[[], list[Measured]]:
    def compare() -> list[Measured]:
        x, grad = _drawn((T, *shape), dtype)
        ours = _neuron_passes(_neuron(spec, T, shape[-1]).to(device), x.to(device), grad.to(device))
        reference = _neuron_passes(_neuron(spec, T, shape[-1]).double(), x.double(), grad.double())
        flips = FLIPS * (THRESHOLDS if _neuron(spec, T, shape[-1]).unfolds else 1)
        return measured(ours, reference, dtype, reach=(0, 2), flips=flips) + _rates(ours, reference)

    return compare


def _against_eager(
    spec: NeuronSpec, T: int, device: torch.device, shape: tuple[int, int, int]
) -> Callable[[], list[Measured]]:
    def compare() -> list[Measured]:
        if not can_compile(device.type):
            raise NotHereError("torch.compile misses something here: spikelm-doctor says what")
        x, grad = (drawn.to(device) for drawn in _drawn((T, *shape), torch.float32))
        eager, compiled = (_neuron(spec, T, shape[-1]).to(device) for _ in range(2))
        compiled.compiled = True
        ours, reference = _neuron_passes(compiled, x, grad), _neuron_passes(eager, x, grad)
        return measured(ours, reference, torch.float32, reach=(0, 2)) + _rates(ours, reference)

    return compare


def _quantizer_against_reference(spec: QuantizerSpec, device: torch.device, size: int) -> Callable[[], list[Measured]]:
    def passes(weight: Tensor, grad: Tensor) -> Passes:
        torch.manual_seed(0)
        module: nn.Module = nn.Module()
        module.weight = nn.Parameter(weight.float().cpu().clone())  # a quantiser prepares itself on the latent weights
        module.quantizer = build_quantizer(spec)
        module.quantizer.prepare(module.weight)
        module.quantizer.start(module.weight)
        module.to(weight.device, weight.dtype)
        values = module.quantizer(module.weight)
        values.backward(grad)
        with torch.no_grad():
            inferred = module.quantizer(module.weight)
        gradients = {name: item.grad for name, item in module.quantizer.named_parameters() if item.grad is not None}
        gradient = module.weight.grad if module.weight.grad is not None else torch.zeros_like(module.weight)
        return Passes(values.detach(), gradient, inferred, gradients)

    def compare() -> list[Measured]:
        weight, grad = _drawn((size, size), torch.float32)
        weight = 0.02 * weight  # as BERT starts
        ours = passes(weight.to(device), grad.to(device))
        return measured(ours, passes(weight.double(), grad.double()), torch.float32, reach=())

    return compare


def measured(
    ours: Passes, reference: Passes, dtype: torch.dtype, reach: tuple[int, ...], flips: float = FLIPS
) -> list[Measured]:
    """The shares of values and gradients that are apart, and how far summed gradients are from each other.

    A flip changes the gradients it reaches, those of other time steps and tokens (`reach`, the axes): they are left
    out, as is what the clip range of a surrogate lets through at one side and not at the other, by its small share.
    """
    close = APART[dtype]
    flipped = apart(ours.values, reference.values, close)
    left_out = flipped.any(dim=reach, keepdim=True).expand_as(flipped) if reach else flipped
    gradients = apart(ours.gradient, reference.gradient, close) & ~left_out
    numbers = [
        Measured("values apart", share_of(flipped), flips),
        Measured("gradients apart", share_of(gradients), flips),
        Measured("inference apart", share_of(apart(ours.inferred, reference.inferred, close)), flips),
    ]
    for name, gradient in reference.of_parameters.items():
        numbers.append(Measured(f"d{name}", relative(ours.of_parameters[name], gradient), SUMS[dtype]))
    return numbers


def _rates(ours: Passes, reference: Passes) -> list[Measured]:
    return [Measured("firing rate", abs(firing_rate(ours.values) - firing_rate(reference.values)), FLIPS)]
