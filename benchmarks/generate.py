"""Beam search of a spiking BART with its cache of spikes against none, and the cache's bytes against float32.

python -m benchmarks.generate [--quick] [--layers 2] [--hidden 128] [--batch 4] [--length 64] [--tokens 40] [--beams 4]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration

from benchmarks.timing import arguments, interleaved, report
from spikelm.spiking import spikify

BISPIKE = {"_target_": "spikelm.neurons.bispike.BiSpike"}


def bart(layers: int, hidden: int, positions: int) -> Any:
    size = {"encoder_layers": layers, "decoder_layers": layers, "d_model": hidden, "vocab_size": 1000}
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), max(1, hidden // 64))
    wide = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 4 * hidden)
    return BartForConditionalGeneration(BartConfig(**size, **heads, **wide, max_position_embeddings=positions))


def cache_ratio(cache: Any) -> float:
    """Bytes of the cache over those of the same keys and values in float32."""
    parts = (cache.self_attention_cache, cache.cross_attention_cache)
    floats = sum(4 * x.numel() for part in parts for layer in part.layers for x in (layer.keys, layer.values))
    return sum(part.nbytes for part in parts) / floats


def main() -> None:
    sizes = {"layers": 2, "hidden": 128, "batch": 4, "length": 64, "tokens": 40, "beams": 4}
    args = arguments("Cached against uncached generation", **sizes)
    args.repeats = min(args.repeats, 5)
    ids = torch.randint(4, 1000, (args.batch, args.length))
    rows = []
    for T in (1, 4):
        model = spikify(bart(args.layers, args.hidden, args.length + args.tokens), BISPIKE, T).train()
        with torch.no_grad():
            model(input_ids=ids)
        how = {"num_beams": args.beams, "min_new_tokens": args.tokens, "max_new_tokens": args.tokens}
        run: Any = partial(model.eval().generate, ids, **how)
        contestants = {"cached": run, "uncached": partial(run, use_cache=False)}
        seconds = interleaved(contestants, args.repeats)
        rows.append(
            {
                "neuron": "bispike",
                "T": T,
                "cached / uncached": seconds["cached"] / seconds["uncached"],
                "bytes / float32": cache_ratio(run(return_dict_in_generate=True).past_key_values),
                "seconds": seconds,
            }
        )
    title = (
        f"generation, {args.layers} + {args.layers} layers x {args.hidden}, {args.tokens} tokens, {args.beams} beams"
    )
    report("generate", title, rows, args)


if __name__ == "__main__":
    main()
