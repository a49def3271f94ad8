"""Matmuls of the spiking kinds that are not those of a BERT, in pure Python like `energy`.

Spikformer: its residual adds up spikes, x = s_0 + s_1 + ..., so W x is W s_0 + W s_1 + ...: one term of additions for
each neuron that has added to x. Nothing is multiplied, and the additions may be more than the plain model's MACs.
RWKV (SpikeGPT): every linear reads real values; its spikes go from block to block and save no multiplication.
"""

from __future__ import annotations

from spikelm.catalog.energy import Term, check_sizes

WORDS = "embeddings.words"  # the site of the words' spikes


def spikformer_terms(layers: int, hidden: int, intermediate: int, length: int) -> list[Term]:
    """(q k') v has spikes on both sides of the first product and on the right of the second."""
    check_sizes(layers=layers, hidden=hidden, intermediate=intermediate, length=length)
    square, wide, attention = length * hidden**2, length * hidden * intermediate, length**2 * hidden
    terms, added = [], [WORDS]
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        terms += [Term(name, site, square, layer) for name in ("query", "key", "value") for site in added]
        terms += [
            Term("query x key", f"{at}.key_out", attention, layer),
            Term("attention x value", f"{at}.value_out", attention, layer),
            Term("attention output", f"{at}.attn_out_in", square, layer),
        ]
        added = [*added, f"{at}.attn_out"]
        terms += [Term("ffn1", site, wide, layer) for site in added]
        terms.append(Term("ffn2", f"{at}.ffn1_out", wide, layer))
        added = [*added, f"{at}.ffn2_out"]
    return terms


def rwkv_terms(layers: int, hidden: int, intermediate: int, length: int) -> list[Term]:
    """Four linears of the time mix and three of the channel mix; the recurrence itself multiplies no matrices."""
    check_sizes(layers=layers, hidden=hidden, intermediate=intermediate, length=length)
    square, wide = length * hidden**2, length * hidden * intermediate
    time = [(f"time {name}", square) for name in ("receptance", "key", "value", "output")]
    channel = [("channel receptance", square), ("channel key", wide), ("channel value", wide)]
    return [Term(name, None, macs, layer) for layer in range(layers) for name, macs in (*time, *channel)]
