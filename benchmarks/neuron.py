"""Forward and backward of each neuron, eager and compiled, against the plain loop over time and a copy of its input.

python -m benchmarks.neuron [--quick] [--batch 16] [--length 128] [--hidden 768]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import naive
from benchmarks.saved import saved_bytes
from benchmarks.timing import arguments, ratio, report, rounds, spread
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels.compiled import can_compile
from spikelm.neurons.lif import LIF
from spikelm.neurons.lif_atan import LIFAtan
from spikelm.neurons.neuron import Neuron
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


def measure(
    name: str, neuron: Neuron, plain: Spike, shape: tuple[int, ...], repeats: int, compiled: bool
) -> dict[str, Any]:
    """One row: times and saved bytes of a neuron and of its naive twin."""
    T = neuron.T
    x = torch.randn(T, *shape, requires_grad=True)
    grad, target = torch.randn(T, *shape), torch.empty(T, *shape)
    with torch.no_grad():
        torch.testing.assert_close(neuron(x), plain(x), rtol=1e-4, atol=1e-4)  # the same work, or no contest

    def both(spike: Spike, compiled: bool = False) -> Callable[[], object]:
        def run() -> object:
            neuron.compiled = compiled
            return torch.autograd.grad(spike(x), [x, *neuron.parameters()], grad)

        return run

    runs = {"ours": both(neuron), "naive": both(plain), "copy": lambda: target.copy_(x.detach())}
    if compiled:
        runs["compiled"] = both(neuron, compiled=True)
    timings = rounds(runs, repeats)
    neuron.compiled = False
    owned = (*neuron.parameters(), *neuron.buffers())  # x counts for whoever keeps it
    kept = {key: saved_bytes(lambda spike=spike: spike(x), owned) for key, spike in (("ours", neuron), ("loop", plain))}
    return {
        "neuron": name,
        "T": T,
        "loop / ours": ratio(timings["naive"], timings["ours"]),
        "quartiles": spread(timings["naive"], timings["ours"]),
        "loop / compiled": ratio(timings["naive"], timings["compiled"]) if compiled else "",
        "ours / copy of x": ratio(timings["ours"], timings["copy"]),
        "compiled / copy": ratio(timings["compiled"], timings["copy"]) if compiled else "",
        "saved / x": kept["ours"] / x.nbytes,
        "saved / loop's": kept["ours"] / kept["loop"],
        "seconds": {name: timing.record() for name, timing in timings.items()},
    }


def main() -> None:
    args = arguments("Neurons against the naive loop", batch=16, length=128, hidden=768)
    if args.quick:
        args.batch = min(args.batch, 8)
    shape = (args.batch, args.length, args.hidden)
    rows = []
    for T in (1, 4):
        for name, (neuron, twin) in contestants(T).items():
            if args.quick and name not in ("bispike", "lif"):
                continue
            neuron(torch.randn(T, *shape))  # sets the amplitudes
            compiled = name in ("bispike", "lif") and not args.quick and can_compile()
            rows.append(measure(name, neuron, twin(neuron), shape, args.repeats, compiled))
    report("neuron", f"forward + backward, CPU time, x of (T, {', '.join(map(str, shape))})", rows, args)


if __name__ == "__main__":
    main()
