"""Energy of an encoder-decoder's matmuls (facts section 4), teacher-forced or generated; pure Python like `energy`.

Encoder, length n:            L [n (4 d^2 + 2 d I) + 2 n^2 d]
cross keys and values, once:  M 2 n d^2
decoder, m tokens:            M [m (6 d^2 + 2 d I) + 2 m^2 d + 2 m n d]
LM head, real-valued, apart:  m d V
With b beams the decoder's line is paid b times. `causal` counts only the m (m + 1) / 2 pairs that a decoder with a
cache multiplies, instead of the full square that a teacher-forced pass computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from spikelm.catalog.energy import Term, check_sizes, encoder_terms
from spikelm.errors import ConfigError


def seq2seq_terms(
    layers: int,
    decoder_layers: int,
    hidden: int,
    intermediate: int,
    source: int,
    target: int,
    beams: int = 1,
    causal: bool = False,
) -> list[Term]:
    """The matmuls of BART or mBART for `source` tokens read and `target` tokens decoded, without the LM head."""
    check_sizes(decoder_layers=decoder_layers, target=target, beams=beams)
    encoder = encoder_terms(layers, hidden, intermediate, source, stack="encoder.layers")
    tokens = beams * target
    square, wide = tokens * hidden**2, tokens * hidden * intermediate
    pairs = target * (target + 1) // 2 if causal else target**2
    itself, across = beams * pairs * hidden, tokens * source * hidden
    once = source * hidden**2  # read from the cache by every beam and every token
    block = (
        ("query", "qkv_in", square),
        ("key", "qkv_in", square),
        ("value", "qkv_in", square),
        ("q x k", "key_out", itself),
        ("a x v", "value_out", itself),
        ("output", "attn_out_in", square),
        ("cross query", "cross_q_in", square),
        ("cross key", "cross_kv_in", once),
        ("cross value", "cross_kv_in", once),
        ("cross q x k", "cross_key_out", across),
        ("cross a x v", "cross_value_out", across),
        ("cross output", "cross_out_in", square),
        ("ffn1", "ffn1_in", wide),
        ("ffn2", "ffn2_in", wide),
    )
    return encoder + [
        Term(f"decoder {name}", f"decoder.layers.{layer}.{site}", macs, layer)
        for layer in range(decoder_layers)
        for name, site, macs in block
    ]


def causal_terms(layers: int, hidden: int, intermediate: int, length: int) -> list[Term]:
    """The matmuls of a GPT-2 that reads `length` tokens one by one with a cache, without the LM head."""
    pairs = length * (length + 1) // 2
    return [
        Term(term.name, None, pairs * hidden if " x " in term.name else term.macs, term.layer)
        for term in encoder_terms(layers, hidden, intermediate, length)
    ]


def lm_head_terms(hidden: int, vocab: int, target: int, beams: int = 1) -> list[Term]:
    """The LM head, real-valued and paid once after the mean over T; the paper's figures leave it out."""
    check_sizes(hidden=hidden, vocab=vocab, target=target, beams=beams)
    return [Term("lm head", None, beams * target * hidden * vocab)]


def generation_terms(
    layers: int,
    decoder_layers: int,
    hidden: int,
    intermediate: int,
    sources: Sequence[int],
    targets: Sequence[int],
    beams: int = 1,
) -> list[Term]:
    """The mean work of one generated example: `sources` read and `targets` decoder steps, one of each per example.

    Decoder steps are generated tokens without the start token; MACs are rounded to whole numbers.
    """
    if not sources or len(sources) != len(targets):
        raise ConfigError(f"{len(sources)} source lengths do not match {len(targets)} generated lengths")
    examples = [
        seq2seq_terms(layers, decoder_layers, hidden, intermediate, source, target, beams, causal=True)
        for source, target in zip(sources, targets, strict=True)
    ]
    return [
        Term(same[0].name, same[0].site, round(sum(term.macs for term in same) / len(same)), same[0].layer)
        for same in zip(*examples, strict=True)
    ]
