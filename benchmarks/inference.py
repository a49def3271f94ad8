"""Inference of one sentence: a spiking BERT classifier, trained form and exported forms, against the plain one (SDPA).

"merged" is the exported form of all other architectures, which BERT has a quicker block in place of.

python -m benchmarks.inference [--quick] [--layers 12] [--hidden 768] [--batch 1] [--length 128]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import BertForSequenceClassification

from benchmarks.step import NEURONS, bert_config
from benchmarks.timing import arguments, ratio, report, rounds, spread
from spikelm.export.convert import export, merged_form
from spikelm.export.merged_model import Export
from spikelm.spiking import spikify
from spikelm.spiking.conversion import conversion_of

BISPIKE = NEURONS["bispike"]


def bert(args: argparse.Namespace) -> Any:
    return BertForSequenceClassification(bert_config(args))


def spiking(args: argparse.Namespace, ids: torch.Tensor, T: int) -> Any:
    """With its amplitudes set, as after a training."""
    model: Any = spikify(bert(args), BISPIKE, T).train()
    with torch.no_grad():
        model(input_ids=ids)
    return model.eval()


def forward(model: Any, ids: torch.Tensor) -> object:
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids))


def main() -> None:
    args = arguments("Inference of a spiking BERT", layers=12, hidden=768, batch=1, length=128)
    if args.quick:
        args.layers, args.hidden = 4, 512
    ids = torch.randint(0, 1000, (args.batch, args.length))
    runs: dict[str, Callable[[], object]] = {"plain": partial(forward, bert(args).eval(), ids)}
    for T in (1, 4):
        model = spiking(args, ids, T)
        runs[f"trained T={T}"] = partial(forward, model, ids)
        conversion = conversion_of(model.config)
        assert conversion is not None
        for precision in ("fp32", "int8"):
            runs[f"exported {precision} T={T}"] = partial(forward, export(model, precision), ids)
            merged = merged_form(model, conversion, Export(precision))
            runs[f"merged {precision} T={T}"] = partial(forward, merged, ids)
    timings = rounds(runs, args.repeats)
    rows = [
        {
            "model": name.partition(" T=")[0],
            "T": int(name.rpartition("=")[2]),
            "/ plain forward": ratio(timing, timings["plain"]),
            "quartiles": spread(timing, timings["plain"]),
            "/ T plain forwards": ratio(timing, timings["plain"], int(name.rpartition("=")[2])),
            "seconds": {"model": timing.record(), "plain": timings["plain"].record()},
        }
        for name, timing in timings.items()
        if name != "plain"
    ]
    title = (
        f"inference, {args.layers} layers x {args.hidden}, batch {args.batch} x {args.length}, {args.threads} thread(s)"
    )
    report("inference", title, rows, args)


if __name__ == "__main__":
    main()
