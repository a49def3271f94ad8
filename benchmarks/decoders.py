"""A spiking Llama against the plain one in the same rounds: training step, forward, tokens with the cache, its bytes.

python -m benchmarks.decoders [--quick] [--layers 4] [--hidden 256] [--batch 4] [--length 128] [--tokens 32]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.generate import generate
from benchmarks.timing import arguments, ratio, report, rounds
from spikelm.spiking import calibrate, spikify
from spikelm.spiking.kv_cache import SpikeCache

VOCAB = 1000
NEURONS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "bispike T=1": ("bispike", 1, {}),
    "bispike T=4": ("bispike", 4, {}),
    "lif T=4": ("lif", 4, {}),
    "residual D=2": ("residual", 1, {"steps": 2}),
    "residual D=3, token": ("residual", 1, {"steps": 3, "scale": "token"}),
    "dynamic": ("dynamic", 1, {}),
}


def llama(args: argparse.Namespace) -> Any:
    """Two query heads of 64 for each head of keys and values, an FFN of 8/3 the width in whole 64s."""
    torch.manual_seed(0)
    heads = max(2, args.hidden // 64)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        intermediate_size=-(-args.hidden * 8 // 3 // 64) * 64,
        max_position_embeddings=2 * args.length + args.tokens,
    )
    return LlamaForCausalLM(config)


def models(args: argparse.Namespace, ids: torch.Tensor) -> dict[str, Any]:
    """The plain one and each spiking one, with its amplitudes set as after a first batch."""
    spiking = {
        name: calibrate(spikify(llama(args), neuron, T, **given), ids) for name, (neuron, T, given) in NEURONS.items()
    }
    return {"plain": llama(args), **spiking}


def step(model: Any, ids: torch.Tensor) -> None:
    """Forward and backward of the next token's loss."""
    model.zero_grad()
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()


@torch.no_grad()
def forward(model: Any, ids: torch.Tensor) -> None:
    """One pass over a text, without a cache."""
    model(input_ids=ids, use_cache=False)


def cache_bytes(model: Any, ids: torch.Tensor, tokens: int) -> int:
    """What is held of all tokens that were read, when the last one is written."""
    cache = generate(model, ids, tokens, return_dict_in_generate=True).past_key_values
    if isinstance(cache, SpikeCache):
        return cache.nbytes
    return sum(x.untyped_storage().nbytes() for layer in cache.layers for x in (layer.keys, layer.values))


def main() -> None:
    args = arguments("A spiking Llama", layers=4, hidden=256, batch=4, length=128, tokens=32)
    args.repeats = min(args.repeats, 2 if args.quick else 15)
    if args.quick:
        args.layers, args.hidden, args.length, args.tokens = 2, 64, 32, 8
    ids = torch.randint(4, VOCAB, (args.batch, args.length))
    contestants = models(args, ids)
    tasks: dict[str, Callable[[Any], object]] = {
        "training step": partial(step, ids=ids),
        "forward": partial(forward, ids=ids[:1]),
        "generation": partial(generate, ids=ids[:1], tokens=args.tokens),
    }
    timings = {}
    for task, run in tasks.items():
        for model in contestants.values():
            model.train(task == "training step")
        timings[task] = rounds({name: partial(run, model) for name, model in contestants.items()}, args.repeats)
    plain = cache_bytes(contestants["plain"], ids[:1], args.tokens)
    rows = [
        {
            "neuron": name,
            **{f"{task} / plain": ratio(timing[name], timing["plain"]) for task, timing in timings.items()},
            "cache bytes / plain": cache_bytes(contestants[name], ids[:1], args.tokens) / plain,
            "seconds": {
                task: {"spiking": timing[name].record(), "plain": timing["plain"].record()}
                for task, timing in timings.items()
            },
        }
        for name in NEURONS
    ]
    size = f"Llama of {args.layers} layers x {args.hidden}"
    title = (
        f"{size}: a step of {args.batch} x {args.length}, a forward of {args.length}, "
        f"{args.tokens} tokens after {args.length}"
    )
    report("decoders", title, rows, args)


if __name__ == "__main__":
    main()
