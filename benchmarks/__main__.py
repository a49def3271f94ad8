"""All benchmarks in one process, so that libraries are imported once: python -m benchmarks [--quick] [NAME ...]."""

from __future__ import annotations

import sys
import time
from importlib import import_module

NAMES = (
    "neuron",
    "step",
    "codes",
    "memory",
    "inference",
    "event",
    "event_generation",
    "generate",
    "decoders",
    "data",
    "startup",
    "scaling",
    "processor",
    "store",
)


def main() -> None:
    options = [word for word in sys.argv[1:] if word not in NAMES]  # each benchmark refuses those it does not know
    names = [word for word in sys.argv[1:] if word in NAMES] or NAMES
    start = time.perf_counter()
    for name in names:
        sys.argv = [name, *options]
        began = time.perf_counter()
        import_module(f"benchmarks.{name}").main()
        print(f"{name}: {time.perf_counter() - began:.0f} seconds\n")
    print(f"{len(names)} benchmarks in {time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
