"""Memory of one training step: bytes kept for the backward, and growth of the process over the built model.

Against the plain BERT of the same size and a BERT whose neurons are the naive loop, with glibc's heap as it is and kept
between steps. Each model has a process of its own, because a process does not give its peak back (Linux only).

python -m benchmarks.memory [--quick] [--layers 12] [--hidden 768] [--batch 4] [--length 128] [--T 4]
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import naive
from benchmarks.saved import saved_bytes
from benchmarks.step import NEURONS, bert, step
from benchmarks.timing import arguments, report
from spikelm.machine.cpu import keep_heap
from spikelm.neurons.bispike import BiSpike
from spikelm.spiking import neurons, spikify

KINDS = ("plain", "ours", "checkpointed", "loop", "plain, heap kept", "ours, heap kept")


class Loop(BiSpike):
    """A bi-spike that leaves its gradients to autograd, as one would first write it."""

    def forward(self, x: Tensor) -> Tensor:
        self.set_from(x)
        return naive.bispike(x, self.alpha, self.memory)


def one(kind: str, args: Any) -> dict[str, float]:
    """Bytes kept and peak growth of one kind of model, in this process."""
    if kind.endswith("heap kept"):  # as trainer=cpu does
        keep_heap()
    model: Any = bert(args)
    if not kind.startswith("plain"):
        model = spikify(model, NEURONS["bispike"], args.T)
    if kind == "checkpointed":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if kind == "loop":
        for neuron in neurons(model):
            neuron.__class__ = Loop
    ids = torch.randint(0, 1000, (args.batch, args.length))
    with torch.no_grad():
        model(input_ids=ids[:1, :8])  # sets the amplitudes, and loads what is loaded once
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak: building the model may have held more
    before = _status("VmRSS")
    step(model, ids)()
    growth = _status("VmHWM") - before
    owned = [*model.parameters(), *model.buffers()]
    return {"kept": saved_bytes(lambda: model(input_ids=ids).last_hidden_state, owned), "growth": growth}


def _status(field: str) -> int:
    """Bytes of a field of /proc/self/status; the peak of getrusage would start at that of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def _reference(kind: str) -> str:
    """The plain model with the same allocator."""
    return "plain, heap kept" if kind.endswith("heap kept") else "plain"


def main() -> None:
    sizes = {"layers": 12, "hidden": 768, "batch": 4, "length": 128, "T": 4, "kind": -1}
    args = arguments("Memory of a training step", heap=False, **sizes)
    if args.kind >= 0:
        print(json.dumps(one(KINDS[args.kind], args)))
        return
    if args.quick:
        args.layers = min(args.layers, 2)
    found = {}
    for index, kind in enumerate(KINDS[:2] if args.quick else KINDS):
        options = [f"--{name}={getattr(args, name)}" for name in sizes if name != "kind"]
        command = [sys.executable, "-m", "benchmarks.memory", *options, f"--kind={index}"]
        found[kind] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rows = [
        {
            "model": kind,
            "T": 1 if kind.startswith("plain") else args.T,
            "kept / plain's": value["kept"] / found["plain"]["kept"],
            "growth / plain's": value["growth"] / found[_reference(kind)]["growth"],
            "kept, GB": value["kept"] / 1e9,
            "growth, GB": value["growth"] / 1e9,
        }
        for kind, value in found.items()
    ]
    title = f"memory of a training step, {args.layers} layers x {args.hidden}, batch {args.batch} x {args.length}"
    report("memory", title, rows, args)


if __name__ == "__main__":
    main()
