"""What spikes save on a processor: event-driven products and forwards against int8 and float32 ones, by firing rate.

python -m benchmarks.event [--quick] [--layers 12] [--hidden 768] [--length 128] [--batch 32] [--path avx512]

A batch of 0 leaves the larger forwards out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.inference import bert, forward
from benchmarks.records import folder
from benchmarks.rivals import dynamic_int8, has_onnxruntime, onnx_files, onnx_forward
from benchmarks.step import NEURONS
from benchmarks.timing import Timing, parser, ratio, report, rounds, settled, spread
from spikelm.errors import ConfigError
from spikelm.export.convert import export
from spikelm.export.event.library import VARIABLE, crossing, library, path_in_use
from spikelm.spiking import neurons, spikify

RATES = (0.05, 0.1, 0.17, 0.25, 0.34, 0.5)
OFTEN = (0.17, 0.34)  # what the target names for SpikeLM's thresholds k=4 and k=2
PLAIN = "plain fp32"
OURS = "ours int8"
ROWS = 128
IN_A_ROW = 5  # products of a kind, which find their weights in a cache


def threshold_of(x: Tensor, rate: float) -> Tensor:
    """theta, where |x| > theta / 2 for this share of x."""
    sizes = x.detach().abs().flatten()
    return 2 * sizes.kthvalue(max(1, round((1 - rate) * len(sizes)))).values


def firing(model: Any, ids: Tensor, rate: float) -> Any:
    """A spiking model whose neurons all fire at one rate on these rows, whatever it computes."""

    def set_height(neuron: Any, inputs: tuple[Tensor, ...]) -> None:
        neuron.alpha.fill_(threshold_of(inputs[0], rate))
        neuron.alpha_ready.fill_(True)
        neuron._ready = None

    hooks = [neuron.register_forward_pre_hook(set_height) for neuron in neurons(model)]
    with torch.no_grad():
        model(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return model


def _in_a_row(run: Callable[[], object]) -> None:
    for _ in range(IN_A_ROW):
        run()


def linear_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One product of 128 rows by events, against `_int_mm` of ready-made bytes and the float32 linear."""
    path, rows = path_in_use(), []
    wide = 4 * args.hidden
    for inputs, outputs in ((args.hidden, args.hidden), (args.hidden, wide), (wide, args.hidden)):
        weight = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8)
        lines, scale, bias = library().pack(weight), torch.rand(1, outputs), torch.randn(outputs)
        x, floats = torch.randn(1, ROWS, inputs), weight.float()
        runs: dict[str, Callable[[], object]] = {}
        for rate in RATES:
            threshold = threshold_of(x, rate).view(1)
            spikes = (x[0] > threshold / 2).to(torch.int8) - (x[0] < -threshold / 2).to(torch.int8)
            runs[f"event {rate}"] = partial(
                library().linear, x, threshold, 0, True, 0, lines, weight, scale, bias, None, None, 1.0, path
            )
            runs[f"int8 {rate}"] = partial(torch._int_mm, spikes, weight.t())
        runs["fp32"] = partial(torch.nn.functional.linear, x[0], floats, bias)
        with torch.inference_mode():
            timings = rounds({name: partial(_in_a_row, run) for name, run in runs.items()}, args.repeats, warm=2)
        for rate in RATES:
            event, int8 = timings[f"event {rate}"], timings[f"int8 {rate}"]
            rows.append(
                {
                    "linear": f"{inputs} to {outputs}",
                    "fires, %": round(100 * rate),
                    "event / int8": ratio(event, int8),
                    "quartiles": spread(event, int8),
                    "event / fp32": ratio(event, timings["fp32"]),
                    "seconds": {"event": event.record(), "int8": int8.record(), "fp32": timings["fp32"].record()},
                }
            )
    return rows


def contestants(args: argparse.Namespace, batch: int, rates: Sequence[float], work: Path) -> dict[str, Any]:
    """Forwards of BERT classifiers of the same sizes, by name."""
    ids = torch.randint(0, 1000, (batch, args.length))
    plain = bert(args).eval()
    runs: dict[str, Any] = {
        PLAIN: partial(forward, plain, ids),
        "plain int8, torch": partial(forward, dynamic_int8(plain), ids),
    }
    if has_onnxruntime():
        files = onnx_files(plain, args, ids[:1], work)
        runs |= {f"plain {name}, onnxruntime": onnx_forward(file, ids, args.threads) for name, file in files.items()}
    for rate in rates:
        model = firing(spikify(bert(args), NEURONS["bispike"], 1).eval(), ids[:1], rate)
        runs[f"event {rate}"] = partial(forward, export(model, "event"), ids)
        if rate == rates[0]:  # dense: its time is the same for all rates
            runs[OURS] = partial(forward, export(model, "int8"), ids)
            runs["ours fp32"] = partial(forward, export(model, "fp32"), ids)
    return runs


def forward_rows(timings: Mapping[str, Timing], batch: int, length: int) -> list[dict[str, Any]]:
    """Every forward over the plain one, over the quickest plain int8 and over our dense int8."""
    rivals = [name for name in timings if name.startswith("plain int8")]
    best = min(rivals, key=lambda name: timings[name].seconds)
    rows = []
    for name, timing in timings.items():
        kind, _, rate = name.partition(" ") if name.startswith("event") else (name, "", "")
        rows.append(
            {
                "forward": kind,
                "size": f"{batch} x {length}",
                "fires, %": round(100 * float(rate)) if rate else "",
                "/ plain fp32": ratio(timing, timings[PLAIN]),
                f"/ {best}": ratio(timing, timings[best]),
                "quartiles": spread(timing, timings[best]),
                "/ ours int8": ratio(timing, timings[OURS]),
                "seconds": {"forward": timing.record()},
            }
        )
    return rows


def crossings(rates: Sequence[float], ratios: Sequence[float]) -> float | None:
    """At which rate the ratio is one, between two rates that were measured; None where it stays on one side."""
    points = list(zip(rates, ratios, strict=True))
    for (a, below), (b, above) in pairwise(points):
        if below <= 1 < above:
            return a + (b - a) * (1 - below) / (above - below)
    return None


def draw(linears: list[dict[str, Any]], forwards: list[dict[str, Any]], title: str, file: Path) -> None:
    """Time against firing rate: single products over `_int_mm`, and a whole forward among its rivals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    percent = [100 * rate for rate in RATES]
    for name in dict.fromkeys(row["linear"] for row in linears):
        ratios = [row["event / int8"] for row in linears if row["linear"] == name]
        place = crossings(RATES, ratios)
        said = "" if place is None else f", level at {100 * place:.0f}%"
        left.plot(percent, ratios, marker="o", label=f"{name}{said}")
    left.axhline(1, color="grey", linewidth=1)
    left.set(
        xlabel="inputs that fire, %",
        ylabel="time over _int_mm",
        xlim=(0, None),
        ylim=(0, None),
        title="one product, 128 rows",
    )
    left.legend()
    ratios = [row["/ plain fp32"] for row in forwards if row["forward"] == "event"]
    right.plot(percent, ratios, marker="o", color="C3", label="event-driven")
    styles = ("--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
    dense = [row for row in forwards if "int8" in row["forward"]]
    for row, style in zip(dense, styles, strict=False):
        height = row["/ plain fp32"]
        place = crossings(RATES, [value / height for value in ratios])
        said = "" if place is None else f", level at {100 * place:.0f}%"
        right.axhline(height, color="grey", linestyle=style, label=f"{row['forward']}{said}")
    right.set(xlabel="inputs that fire, %", ylabel="time over plain fp32", xlim=(0, None), ylim=(0, None), title=title)
    right.legend()
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def main() -> None:
    options = parser("Event-driven inference", layers=12, hidden=768, length=128, batch=32, batch_repeats=5)
    options.add_argument("--path", help="avx512, avx2 or portable (default: the quickest that this processor has)")
    options.add_argument("--figure", type=Path, help="where the figure goes (default: event.svg beside the record)")
    args = settled(options)
    if args.path:
        os.environ[VARIABLE] = args.path
    if library() is None:
        raise ConfigError("the event-driven products cannot be compiled here", "install g++")
    if args.quick:
        args.layers, args.hidden, args.batch, args.batch_repeats = 2, 256, 4, 2
    figure = args.figure or folder() / "event.svg"
    args.figure, args.path = None, path_in_use()
    args.isa = os.environ.get("ONEDNN_MAX_CPU_ISA", "")  # how a machine without VNNI is played
    print(f"path {args.path}, dense from {100 * crossing(args.path):.0f}% on, onnxruntime: {has_onnxruntime()}")
    model = f"{args.layers} layers x {args.hidden}"
    title = f"event-driven inference, {model}, {args.threads} thread(s), {args.path}"
    linears = linear_rows(args)
    report("event", title, linears, args)
    with tempfile.TemporaryDirectory() as work:
        one = rounds(contestants(args, 1, RATES, Path(work)), args.repeats, warm=2)
        forwards = forward_rows(one, 1, args.length)
        report("event-forward", title, forwards, args)
        draw(linears, forwards, f"BERT {model}, 1 x {args.length}", figure)
        print(f"figure: {figure}")
        if args.batch:
            many = rounds(contestants(args, args.batch, OFTEN, Path(work)), args.batch_repeats)
            report("event-batch", title, forward_rows(many, args.batch, args.length), args)


if __name__ == "__main__":
    main()
