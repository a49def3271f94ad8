"""One training step (forward and backward) of a spiking BERT against T steps of the plain BERT of its size, CPU time.

python -m benchmarks.step [--quick] [--layers 4] [--hidden 512] [--batch 16] [--length 128]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel

from benchmarks.timing import arguments, ratio, report, rounds, spread
from spikelm.config.settings.specs import ClassSpec
from spikelm.neurons.kernels.compiled import can_compile
from spikelm.spiking import neurons as neurons_of
from spikelm.spiking import spikify
from spikelm.spiking.saved.dropout import keep_bits
from spikelm.spiking.saved.sdpa import keep_less

NEURONS = {
    "bispike": ClassSpec("spikelm.neurons.bispike.BiSpike"),
    "lif": ClassSpec("spikelm.neurons.lif.LIF"),
    "lif_atan": ClassSpec("spikelm.neurons.lif_atan.LIFAtan"),
    "psn": ClassSpec("spikelm.neurons.psn.PSN"),
}


def bert_config(args: argparse.Namespace) -> BertConfig:
    """A BERT of the sizes that were asked for, with heads of 64."""
    return BertConfig(
        vocab_size=1000,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=max(1, args.hidden // 64),
        intermediate_size=4 * args.hidden,
        max_position_embeddings=args.length,
    )


def bert(args: argparse.Namespace) -> BertModel:
    return BertModel(bert_config(args)).train()


def quick_dropout(model: BertModel) -> BertModel:
    """A plain BERT with the dropout of spiking models: what of the difference is theirs alone."""
    keep_bits(model)
    keep_less(model)
    return model


def step(model: nn.Module, ids: torch.Tensor, compiled: bool = False) -> Callable[[], object]:
    def run() -> None:
        for neuron in neurons_of(model):
            neuron.compiled = compiled
        model.zero_grad(set_to_none=True)
        model(input_ids=ids).last_hidden_state.square().mean().backward()

    return run


def row(name: str, T: int, run: Callable[[], object], plain: Callable[[], object], repeats: int) -> dict[str, Any]:
    """One contestant beside the plain step, which runs right before it: the machine's pace drifts within a minute."""
    timings = rounds({"plain": plain, "ours": run}, repeats)
    return {
        "neuron": name,
        "T": T,
        "step / (T plain steps)": ratio(timings["ours"], timings["plain"], T),
        "quartiles": spread(timings["ours"], timings["plain"], T),
        "seconds": {"spiking": timings["ours"].record(), "plain": timings["plain"].record()},
    }


def main() -> None:
    args = arguments("A spiking step against the plain one", layers=4, hidden=512, batch=16, length=128)
    args.repeats = min(args.repeats, 2 if args.quick else 7)
    if args.quick:
        args.batch = min(args.batch, 4)
    neurons = ["bispike"] if args.quick else list(NEURONS)
    ids = torch.randint(0, 1000, (args.batch, args.length))
    rows: list[dict[str, Any]] = []
    for T in (1, 4):
        models = {name: spikify(bert(args), NEURONS[name], T) for name in neurons}
        plain = bert(args)
        runs = {name: step(model, ids) for name, model in models.items()}
        if not args.quick and can_compile():
            runs["bispike, compiled neurons"] = step(models["bispike"], ids, compiled=True)
        if not args.quick and T == 1:
            runs["none: plain, our dropout"] = step(quick_dropout(bert(args)), ids)
        if not args.quick and T > 1:  # what the larger matrices cost by themselves
            runs["none: plain, T times the batch"] = step(plain, ids.repeat(T, 1))
        rows += [row(name, T, run, step(plain, ids), args.repeats) for name, run in runs.items()]
    title = f"training step, {args.layers} layers x {args.hidden}, batch {args.batch} x {args.length}"
    report("step", title, rows, args)


if __name__ == "__main__":
    main()
