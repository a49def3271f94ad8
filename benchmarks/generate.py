"""Greedy generation with the cache of spikes: time per token against the plain model, bytes, growth with the length.

python -m benchmarks.generate [--quick] [--layers 6] [--hidden 768] [--batch 1] [--length 32] [--tokens 64]
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel

from benchmarks.timing import arguments, ratio, report, rounds, slope
from spikelm.config.settings.specs import ClassSpec
from spikelm.spiking import spikify

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
POSITIONS = 1024


def bart(args: argparse.Namespace) -> Any:
    size = {"encoder_layers": args.layers, "decoder_layers": args.layers, "d_model": args.hidden, "vocab_size": 1000}
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), max(1, args.hidden // 64))
    wide = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 4 * args.hidden)
    return BartForConditionalGeneration(BartConfig(**size, **heads, **wide, max_position_embeddings=POSITIONS))


def gpt2(args: argparse.Namespace) -> Any:
    size = {"n_layer": args.layers, "n_embd": args.hidden, "n_head": max(1, args.hidden // 64), "vocab_size": 1000}
    ids = {"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(**size, **ids, n_positions=POSITIONS))


def spiking(model: Any, T: int, ids: torch.Tensor) -> Any:
    """With its amplitudes set, as after a training."""
    model = spikify(model, BISPIKE, T).train()
    with torch.no_grad():
        model(input_ids=ids)
    return model


def generate(model: Any, ids: torch.Tensor, tokens: int, **options: Any) -> Any:
    return model.generate(ids, num_beams=1, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens, **options)


def cache_ratio(cache: Any) -> float:
    """Bytes of the cache over those of the same keys and values in float32."""
    parts = [getattr(cache, name, None) for name in ("self_attention_cache", "cross_attention_cache")]
    held: list[Any] = [part for part in parts if part is not None] or [cache]
    floats = sum(4 * x.numel() for part in held for layer in part.layers for x in (layer.keys, layer.values))
    return sum(part.nbytes for part in held) / floats


def main() -> None:
    args = arguments("Generation with a cache of spikes", layers=6, hidden=768, batch=1, length=32, tokens=64)
    args.repeats = min(args.repeats, 2 if args.quick else 7)
    if args.quick:
        args.layers, args.tokens = 2, 24
    ids = torch.randint(4, 1000, (args.batch, args.length))
    rows = []
    for name, make in (("GPT-2", gpt2), ("BART", bart))[: 1 if args.quick else 2]:
        models = {"plain": make(args).eval(), **{T: spiking(make(args), T, ids).eval() for T in (1, 4)}}
        timings = rounds(
            {str(T): partial(generate, model, ids, args.tokens) for T, model in models.items()}, args.repeats
        )
        lengths = [args.tokens // 2, args.tokens, 2 * args.tokens]
        for T in (1, 4):
            grown = rounds({str(n): partial(generate, models[T], ids, n) for n in lengths}, 1, warm=0)
            cache = generate(models[T], ids, args.tokens, return_dict_in_generate=True).past_key_values
            rows.append(
                {
                    "model": name,
                    "T": T,
                    "token / plain token": ratio(timings[str(T)], timings["plain"]),
                    "cache bytes / float32": cache_ratio(cache),
                    "growth with tokens (1 = linear)": slope(
                        [float(n) for n in lengths], [grown[str(n)].seconds for n in lengths]
                    ),
                    "seconds": {"spiking": timings[str(T)].record(), "plain": timings["plain"].record()},
                }
            )
    size = f"{args.layers} layers x {args.hidden}, batch {args.batch}"
    title = f"generation, {size}, {args.tokens} tokens after {args.length}"
    report("generate", title, rows, args)


if __name__ == "__main__":
    main()
