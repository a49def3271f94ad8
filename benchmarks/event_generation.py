"""Tokens written by an exported decoder, event-driven and in int8, against the plain one in float32 and in int8.

python -m benchmarks.event_generation [--quick] [--layers 6] [--hidden 768] [--vocab 32000] [--length 32] [--tokens 32]

All weights are random; the neurons are set to fire at given rates on the prompt.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.pytorch_utils import Conv1D

from benchmarks.event import firing
from benchmarks.generate import generate
from benchmarks.rivals import dynamic_int8
from benchmarks.step import NEURONS
from benchmarks.timing import Timing, parser, ratio, report, rounds, settled, spread
from spikelm.export.convert import export
from spikelm.spiking import spikify

RATES = (0.1, 0.25)
PLAIN, INT8 = "plain fp32", "plain int8, torch"


def gpt2(args: argparse.Namespace) -> Any:
    torch.manual_seed(0)
    sizes = {"n_layer": args.layers, "n_embd": args.hidden, "n_head": max(1, args.hidden // 64)}
    marks = {"vocab_size": args.vocab, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(**sizes, **marks, n_positions=args.length + args.tokens))


def llama(args: argparse.Namespace) -> Any:
    """An FFN of 8/3 the width in whole 64s, and as many heads of keys and values as of queries."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=max(1, args.hidden // 64),
        intermediate_size=-(-args.hidden * 8 // 3 // 64) * 64,
        max_position_embeddings=args.length + args.tokens,
    )
    return LlamaForCausalLM(config)


def with_linears(model: Any) -> Any:
    """GPT-2's Conv1D as linears, which torch's dynamic int8 knows."""
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Conv1D):
                linear = nn.Linear(*child.weight.shape)
                linear.load_state_dict({"weight": child.weight.T.contiguous(), "bias": child.bias})
                setattr(parent, name, linear)
    return model


def contestants(make: Callable[[], Any], ids: torch.Tensor) -> dict[str, Any]:
    """Decoders of the same sizes, by name."""
    plain = make().eval()
    models = {PLAIN: plain, INT8: dynamic_int8(with_linears(plain))}
    for rate in RATES:
        model = firing(spikify(make(), NEURONS["bispike"], 1).eval(), ids, rate)
        models[f"event {rate}"] = export(model, "event")
        models[f"event {rate}, int8 head"] = export(model, "event", int8_head=True)
        if rate == RATES[0]:  # dense: their time is the same for all rates
            models |= {"ours int8": export(model, "int8"), "ours fp32": export(model), "trained form": model}
            models["ours int8, int8 head"] = export(model, "int8", int8_head=True)
    return models


def rows_of(decoder: str, timings: dict[str, Timing], tokens: int) -> list[dict[str, Any]]:
    return [
        {
            "decoder": decoder,
            "model": name,
            "tokens/s": tokens / timing.seconds,
            "/ plain fp32": ratio(timing, timings[PLAIN]),
            "/ plain int8": ratio(timing, timings[INT8]),
            "quartiles": spread(timing, timings[INT8]),
            "/ ours int8": ratio(timing, timings["ours int8"]),
            "seconds": {"generation": timing.record()},
        }
        for name, timing in timings.items()
    ]


def main() -> None:
    options = parser("Event-driven generation", layers=6, hidden=768, vocab=32000, length=32, tokens=32)
    args = settled(options)
    args.repeats = min(args.repeats, 2 if args.quick else 9)
    if args.quick:
        args.layers, args.hidden, args.vocab, args.tokens = 2, 128, 1000, 8
    ids = torch.randint(4, args.vocab, (1, args.length))
    rows = []
    for name, make in (("GPT-2", gpt2), ("Llama", llama)):
        models = contestants(partial(make, args), ids)
        with torch.inference_mode():
            runs = {kind: partial(generate, model, ids, args.tokens) for kind, model in models.items()}
            rows += rows_of(name, rounds(runs, args.repeats), args.tokens)
    size = f"{args.layers} layers x {args.hidden}, {args.vocab:,} pieces"
    title = f"generation, {size}, batch 1, {args.tokens} tokens after {args.length}, {args.threads} thread(s)"
    report("event-generation", title, rows, args)


if __name__ == "__main__":
    main()
