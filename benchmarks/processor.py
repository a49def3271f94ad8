"""What trainer=cpu changes: steps of a spiking BERT with glibc's defaults and with the heap kept; jobs and threads.

python -m benchmarks.processor [--quick] [--layers 2] [--hidden 256] [--batch 16] [--length 64] [--steps 20]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from argparse import Namespace
from typing import Any

from benchmarks.processes import PROJECT, environment
from benchmarks.timing import arguments, report

WORKER = """
import json, resource, sys, time
import torch
keep, threads, layers, hidden, batch, length, steps = map(int, sys.argv[1:])
from spikelm.machine.cpu import keep_heap
if keep:
    keep_heap()
torch.set_num_threads(threads)
torch.manual_seed(0)
from benchmarks.scaling import contestant
run = contestant(layers, hidden, batch, length, 4)
run(), run()
start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
for _ in range(steps):
    run()
end = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"user": end.ru_utime - cpu.ru_utime, "system": end.ru_stime - cpu.ru_stime,
                  "wall": time.perf_counter() - start, "peak_mb": end.ru_maxrss / 1024}))
"""


def together(args: Namespace, jobs: int, threads: int, keep: bool) -> list[dict[str, Any]]:
    """What `jobs` processes at a time say of their steps."""
    sizes = [int(keep), threads, args.layers, args.hidden, args.batch, args.length, args.steps]
    command = [sys.executable, "-c", WORKER, *map(str, sizes)]
    env = environment(OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS=str(threads))
    started = [subprocess.Popen(command, env=env, cwd=PROJECT, stdout=subprocess.PIPE) for _ in range(jobs)]
    return [json.loads(process.communicate()[0]) for process in started]


def _gain(rates: dict[str, list[float]]) -> float:
    """The first way's median over the second's."""
    one, other = (statistics.median(values) for values in rates.values())
    return one / other


def main() -> None:
    args = arguments("CPU settings and sweeps", layers=2, hidden=256, batch=16, length=64, steps=10)
    args.steps = 5 if args.quick else args.steps
    repeats = 1 if args.quick else min(args.repeats, 5)
    heap: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    ways = {"two jobs of one thread": (2, 1), "one job of two threads": (1, 2)}
    sweep: dict[str, list[float]] = {name: [] for name in ways}  # steps a second, all jobs together
    spent: dict[str, list[float]] = {name: [] for name in ways}  # steps a CPU second, which other jobs do not disturb
    for _ in range(repeats):
        for keep in () if args.quick else heap:
            heap[keep] += together(args, 1, 1, keep)
        for name, (jobs, threads) in ways.items():
            done = together(args, jobs, threads, True)
            sweep[name].append(sum(args.steps / job["wall"] for job in done))
            spent[name].append(jobs * args.steps / sum(job["user"] + job["system"] for job in done))
    rows = [] if args.quick else [_heap_row(heap)]
    rows += [
        {
            "what": "two one-thread jobs / one two-thread job",
            "steps a second": _gain(sweep),
            "steps a CPU second": _gain(spent),
            "seconds": {name: {"a_second": sweep[name], "a_cpu_second": spent[name]} for name in ways},
        },
    ]
    report("processor", f"T=4, {args.layers} layers x {args.hidden}, batch {args.batch} x {args.length}", rows, args)


def _heap_row(heap: dict[bool, list[dict[str, Any]]]) -> dict[str, Any]:
    """A step with the heap kept against one with glibc's defaults."""
    found = {keep: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for keep, runs in heap.items()}
    cpu = {keep: one["user"] + one["system"] for keep, one in found.items()}
    return {
        "what": "heap kept / glibc's defaults",
        "CPU time of a step": cpu[True] / cpu[False],
        "of it in the system, before": found[False]["system"] / cpu[False],
        "of it in the system, after": found[True]["system"] / cpu[True],
        "peak memory": found[True]["peak_mb"] / found[False]["peak_mb"],
        "seconds": {"kept": found[True], "defaults": found[False]},
    }


if __name__ == "__main__":
    main()
