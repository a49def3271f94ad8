"""Exported models as ONNX files in onnxruntime, against plain BERTs there and against our own exports in torch.

Also the product that they are made of, with bytes that have a sign and with bytes that have none.

python -m benchmarks.onnx [--quick] [--layers 12] [--hidden 768] [--batch 1] [--length 128]
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch

from benchmarks.event import OFTEN, PLAIN, ROWS, firing
from benchmarks.inference import bert, forward
from benchmarks.rivals import dynamic_int8, onnx_files, onnx_forward, session
from benchmarks.step import NEURONS
from benchmarks.timing import arguments, ratio, report, rounds, spread
from spikelm.export.convert import export
from spikelm.export.onnx import OPSET, onnx_model
from spikelm.spiking import spikify

PLAIN_INT8 = "plain int8, onnxruntime"


def contestants(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Forwards of BERT classifiers of the same sizes, by name."""
    ids = torch.randint(0, 1000, (args.batch, args.length))
    plain = bert(args).eval()
    runs: dict[str, Any] = {
        PLAIN: partial(forward, plain, ids),
        "plain int8, torch": partial(forward, dynamic_int8(plain), ids),
    }
    files = onnx_files(plain, args, ids[:1], work)
    runs |= {f"plain {name}, onnxruntime": onnx_forward(file, ids, args.threads) for name, file in files.items()}
    spiking = firing(spikify(bert(args), NEURONS["bispike"], 1).eval(), ids[:1], OFTEN[0])
    for precision in ("fp32", "int8"):
        made = export(spiking, precision)
        runs[f"ours {precision}, torch"] = partial(forward, made, ids)
        file = work / f"ours-{precision}.onnx"
        onnx.save(onnx_model(made), file)
        runs[f"ours {precision}, onnxruntime"] = onnx_forward(file, ids, args.threads)
    return runs


def product_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """MatMulInteger of 128 rows of spikes, -1, 0 and 1 as they are or 0, 1 and 2 with the zero point 1."""
    spikes, weight = torch.randint(-1, 2, (ROWS, args.hidden)), torch.randint(-127, 128, (args.hidden, 4 * args.hidden))
    runs = {}
    for name, numbers, zero in (("signed", spikes.to(torch.int8), 0), ("unsigned", (spikes + 1).to(torch.uint8), 1)):
        kind = onnx.helper.np_dtype_to_tensor_dtype(numbers.numpy().dtype)
        constants = {"weight": weight.to(torch.int8), "zero": torch.tensor(zero).to(numbers.dtype)}
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMulInteger", ["numbers", "weight", "zero"], ["sums"])],
            name,
            [onnx.helper.make_tensor_value_info("numbers", kind, numbers.shape)],
            [onnx.helper.make_tensor_value_info("sums", onnx.TensorProto.INT32, None)],
            [onnx.numpy_helper.from_array(value.numpy(), key) for key, value in constants.items()],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
        runs[name] = partial(session(model.SerializeToString(), args.threads).run, None, {"numbers": numbers.numpy()})
    timings = rounds(runs, args.repeats, warm=2)
    signed, unsigned = timings["signed"], timings["unsigned"]
    seconds = {name: timing.record() for name, timing in timings.items()}
    return [
        {
            "product": f"{ROWS} x {args.hidden} x {4 * args.hidden}",
            "signed / unsigned": ratio(signed, unsigned),
            "quartiles": spread(signed, unsigned),
            "seconds": seconds,
        }
    ]


def main() -> None:
    args = arguments("ONNX files in onnxruntime", layers=12, hidden=768, batch=1, length=128)
    if args.quick:
        args.layers, args.hidden = 2, 256
    report("onnx-product", f"MatMulInteger in onnxruntime, {args.threads} thread(s)", product_rows(args), args)
    with tempfile.TemporaryDirectory() as work:
        timings = rounds(contestants(args, Path(work)), args.repeats, warm=2)
    rows = [
        {
            "forward": name,
            "/ plain fp32, torch": ratio(timing, timings[PLAIN]),
            f"/ {PLAIN_INT8}": ratio(timing, timings[PLAIN_INT8]),
            "quartiles": spread(timing, timings[PLAIN_INT8]),
            "seconds": {"forward": timing.record()},
        }
        for name, timing in timings.items()
    ]
    title = f"onnx, {args.layers} layers x {args.hidden}, {args.batch} x {args.length}, {args.threads} thread(s)"
    report("onnx", title, rows, args)


if __name__ == "__main__":
    main()
