"""Forward and backward of each neuron against the plain loop over time and against a copy of its input.

python -m benchmarks.neuron [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import naive
from benchmarks.timing import arguments, interleaved, report
from spikelm.neurons.base import Neuron
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.lif import LIF
from spikelm.neurons.lif_atan import LIFAtan
from spikelm.neurons.psn import PSN

Spike = Callable[[Tensor], Tensor]


def contestants(T: int) -> dict[str, tuple[Neuron, Callable[[Neuron], Spike]]]:
    """Each neuron with the maker of its naive twin, which uses the neuron's own amplitudes or weights."""
    return {
        "bispike": (BiSpike(T), lambda n: lambda x: naive.bispike(x, n.alpha)),
        "bispike, no memory": (
            BiSpike(T, memory=False),
            lambda n: lambda x: naive.bispike(x, n.alpha, memory=False),
        ),
        "bispike, learnable": (
            BiSpike(T, alpha="learnable"),
            lambda n: lambda x: naive.bispike(x, n.alpha),
        ),
        "lif": (LIF(T), lambda n: naive.lif),
        "lif_atan": (LIFAtan(T), lambda n: naive.lif_atan),
        "psn": (PSN(T), lambda n: lambda x: naive.psn(x, n.weight, n.bias)),
    }


def saved_bytes(spike: Spike, x: Tensor) -> int:
    """Bytes autograd keeps for the backward, each storage once."""
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        spikes = spike(x)
    del spikes
    return sum(sizes.values())


def measure(name: str, neuron: Neuron, plain: Spike, shape: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """One row: times and saved bytes of a neuron and of its naive twin."""
    T = neuron.T
    x = torch.randn(T, *shape, requires_grad=True)
    grad, target = torch.randn(T, *shape), torch.empty(T, *shape)
    with torch.no_grad():
        torch.testing.assert_close(neuron(x), plain(x), rtol=1e-4, atol=1e-4)  # the same work, or no contest

    def both(spike: Spike) -> Callable[[], object]:
        return lambda: torch.autograd.grad(spike(x), [x, *neuron.parameters()], grad)

    seconds = interleaved(
        {"ours": both(neuron), "naive": both(plain), "copy": lambda: target.copy_(x.detach())}, repeats
    )
    return {
        "neuron": name,
        "T": T,
        "naive loop / ours": seconds["naive"] / seconds["ours"],
        "ours / copy of x": seconds["ours"] / seconds["copy"],
        "saved / x": saved_bytes(neuron, x) / x.nbytes,
        "naive saved / x": saved_bytes(plain, x) / x.nbytes,
        "seconds": seconds,
    }


def main() -> None:
    args = arguments("Neurons against the naive loop", batch=32, length=30, hidden=512)
    shape = (args.batch, args.length, args.hidden)
    rows = []
    for T in (1, 4):
        for name, (neuron, twin) in contestants(T).items():
            neuron(torch.randn(T, *shape))  # sets the amplitudes
            rows.append(measure(name, neuron, twin(neuron), shape, args.repeats))
    report("neuron", f"forward + backward, x of (T, {', '.join(map(str, shape))})", rows, args)


if __name__ == "__main__":
    main()
