"""Energy of a model's matmuls (section 5.1 of the paper), in pure Python so that it answers at once.

Plain model:    E = sum MACs * E_mac.
Spiking model:  E = sum MACs * T * r_site * E_ac, where r_site is the firing rate of the spikes that feed the matmul.
Softmax, LayerNorm, GELU and the membrane update are not counted, as in the paper, nor is what stands in their place.

First the rule, then the matmuls of each architecture: encoders, encoder-decoders and decoders, the spiking rivals, the
recurrent ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spikelm.errors import ConfigError

Precision = Literal["fp32", "fp16"]

#: picojoule per operation in 45 nm (section 5.1 of the paper): multiply-accumulate, accumulate
PICOJOULE: dict[str, tuple[float, float]] = {"fp32": (4.6, 0.9), "fp16": (1.5, 0.4)}

WORDS = "embeddings.words"  # the site of the words' spikes in a Spikformer


@dataclass(frozen=True)
class Term:
    """One matmul: the site whose spikes feed it (None: it stays real-valued), its MACs and its layer."""

    name: str
    site: str | None
    macs: int
    layer: int | None = None


def energy_mj(terms: Iterable[Term], precision: Precision = "fp32") -> float:
    """The modelled energy of a plain network in mJ: every multiplication with its addition (MAC) costs one.

    Args:
        terms: The matrix products, for example `encoder_terms(layers, hidden, intermediate, length)`.
        precision: "fp32" (4.6 pJ for a MAC) or "fp16" (1.5 pJ), in 45 nm as in the paper.

    Examples:
        >>> from spikelm.catalog.energy import encoder_terms, energy_mj
        >>> round(energy_mj(encoder_terms(layers=12, hidden=768, intermediate=3072, length=128)), 2)  # BERT_base
        51.4
    """
    mac, _ = _picojoule(precision)
    return sum(term.macs for term in terms) * mac * 1e-9


def spiking_energy_mj(
    terms: Iterable[Term], rates: Mapping[str, float], T: int, precision: Precision = "fp32"
) -> float:
    """The modelled energy of a spiking network in mJ: an addition at each of T steps wherever a neuron fired.

    A term without a site stays real-valued and is paid once, after the mean over time.

    Args:
        terms: The matrix products, as for `energy_mj`.
        rates: The firing rate of each site, as `measure_firing` returns it.
        T: The number of time steps.
        precision: "fp32" (0.9 pJ for an addition) or "fp16" (0.4 pJ).

    Raises:
        ConfigError: If the rate of a site is not given or is negative.

    Examples:
        >>> from spikelm.catalog.energy import encoder_terms, spiking_energy_mj
        >>> terms = encoder_terms(layers=12, hidden=768, intermediate=3072, length=128)
        >>> rates = {term.site: 0.25 for term in terms}
        >>> round(spiking_energy_mj(terms, rates, T=4), 2)
        10.06
    """
    mac, ac = _picojoule(precision)
    check_sizes(T=T)

    def picojoule(term: Term) -> float:
        return term.macs * (mac if term.site is None else ac * T * site_rate(term.site, rates))

    return sum(map(picojoule, terms)) * 1e-9


def ceiling_mj(terms: Iterable[Term], T: int = 1, precision: Precision = "fp32") -> float:
    """Energy of the SNN if every neuron fired at every step: rate 1."""
    listed = list(terms)
    return spiking_energy_mj(listed, {t.site: 1.0 for t in listed if t.site is not None}, T, precision)


def mean_rate(terms: Iterable[Term], rates: Mapping[str, float]) -> float:
    """Firing rate weighted by the MACs each site feeds, so that E = ceiling * mean rate."""
    spiking = [(term.macs, site_rate(term.site, rates)) for term in terms if term.site is not None]
    total = sum(macs for macs, _ in spiking)
    return sum(macs * rate for macs, rate in spiking) / total if total else 0.0


def site_rate(site: str, rates: Mapping[str, float]) -> float:
    """The firing rate of one site, which must be there; above 1 where a value unfolds into several spikes."""
    if site not in rates:
        raise ConfigError(f"no firing rate for site {site!r}", "measure a model of the same size")
    rate = rates[site]
    if not (0 <= rate < math.inf):
        raise ConfigError(f"the firing rate of {site!r} is {rate}: it must be a number of at least 0")
    return rate


def _picojoule(precision: str) -> tuple[float, float]:
    if precision not in PICOJOULE:
        raise ConfigError(f"precision {precision!r} is unknown", f"choose among: {', '.join(PICOJOULE)}")
    return PICOJOULE[precision]


def check_sizes(**sizes: int) -> None:
    """Refuse a size below 1 by its name."""
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name}={size}: must be at least 1")


def encoder_terms(layers: int, hidden: int, intermediate: int, length: int, stack: str = "encoder.layer") -> list[Term]:
    """The matmuls of a BERT encoder: per layer n (4 H^2 + 2 H I) in linears and 2 n^2 H in attention."""
    check_sizes(layers=layers, hidden=hidden, intermediate=intermediate, length=length)
    square, wide, attention = length * hidden**2, length * hidden * intermediate, length**2 * hidden
    block = (
        ("query", "qkv_in", square),
        ("key", "qkv_in", square),
        ("value", "qkv_in", square),
        ("query x key", "key_out", attention),
        ("attention x value", "value_out", attention),
        ("attention output", "attn_out_in", square),
        ("ffn1", "ffn1_in", wide),
        ("ffn2", "ffn2_in", wide),
    )
    return [Term(name, f"{stack}.{layer}.{site}", macs, layer) for layer in range(layers) for name, site, macs in block]


def real_valued_terms(hidden: int, num_labels: int = 2) -> list[Term]:
    """What stays real-valued after the encoder, on the first token only; the paper does not count it."""
    check_sizes(hidden=hidden, num_labels=num_labels)
    return [Term("pooler", None, hidden**2), Term("classifier", None, hidden * num_labels)]


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
    """The matmuls of BART, mBART or Marian for `source` tokens read and `target` tokens decoded, without the LM head.

    Encoder, n tokens:            L [n (4 d^2 + 2 d I) + 2 n^2 d]
    cross keys and values, once:  M 2 n d^2
    decoder, m tokens:            M [m (6 d^2 + 2 d I) + 2 m^2 d + 2 m n d], paid once per beam
    `causal` counts the m (m + 1) / 2 pairs of tokens that a decoder with a cache multiplies, in place of the whole
    square that a teacher-forced pass computes.
    """
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


def causal_terms(layers: int, hidden: int, intermediate: int, length: int, stack: str | None = None) -> list[Term]:
    """The matmuls of a GPT-2 that reads `length` tokens one by one with a cache, without the LM head.

    `stack` is where the blocks of a spiking one are ("h"), for the names of its sites; a plain one has none.
    """
    pairs = length * (length + 1) // 2
    return [
        Term(term.name, term.site if stack else None, pairs * hidden if " x " in term.name else term.macs, term.layer)
        for term in encoder_terms(layers, hidden, intermediate, length, stack or "h")
    ]


def llama_terms(
    layers: int,
    hidden: int,
    intermediate: int,
    heads: int,
    key_value_heads: int,
    head_size: int,
    length: int,
    stack: str | None = "layers",
) -> list[Term]:
    """The matmuls of a Llama that reads `length` tokens one by one with a cache, without the LM head.

    n tokens, of which a token sees itself and those before it; q = heads * head size, k = key and value heads * head
    size:  L [n (2 d q + 2 d k + 3 d I) + n (n + 1) q]. Queries share heads of keys and values, yet each query head
    meets every token. The gate's product with what goes up is taken value by value: it is no matmul. A window of
    attention that is shorter than the text is not known here. `stack` is as in `causal_terms`.
    """
    check_sizes(layers=layers, hidden=hidden, intermediate=intermediate, length=length)
    check_sizes(heads=heads, key_value_heads=key_value_heads, head_size=head_size)
    queries, keys, pairs = heads * head_size, key_value_heads * head_size, length * (length + 1) // 2
    wide = length * hidden * intermediate
    block = (
        ("query", "qkv_in", length * hidden * queries),
        ("key", "qkv_in", length * hidden * keys),
        ("value", "qkv_in", length * hidden * keys),
        ("query x key", "key_out", pairs * queries),
        ("attention x value", "value_out", pairs * queries),
        ("attention output", "attn_out_in", length * queries * hidden),
        ("gate", "ffn1_in", wide),
        ("up", "ffn1_in", wide),
        ("down", "ffn2_in", wide),
    )
    return [
        Term(name, f"{stack}.{layer}.{site}" if stack else None, macs, layer)
        for layer in range(layers)
        for name, site, macs in block
    ]


def decoder_terms(facts: Mapping[str, Any], length: int, spiking: bool) -> list[Term]:
    """The matmuls of a saved decoder that reads `length` tokens one by one with a cache, without the LM head.

    Args:
        facts: The model's `config.json`: of a GPT-2, or of Llama and those built like it.
        length: Tokens read and written; the last one that is written is read by nobody.
        spiking: Whether each term carries the site whose spikes feed it.

    Examples:
        >>> from spikelm.catalog.energy import decoder_terms
        >>> facts = {"model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536}
        >>> facts |= {"num_attention_heads": 9, "num_key_value_heads": 3}
        >>> sum(term.macs for term in decoder_terms(facts, length=1, spiking=False))  # 106 M weights, and one token
        106202880
    """
    try:
        if facts["model_type"] == "gpt2":
            hidden = facts["n_embd"]
            sizes = facts["n_layer"], hidden, facts.get("n_inner") or 4 * hidden
            return causal_terms(*sizes, length, "h" if spiking else None)
        hidden, heads = facts["hidden_size"], facts["num_attention_heads"]
        return llama_terms(
            facts["num_hidden_layers"],
            hidden,
            facts["intermediate_size"],
            heads,
            facts.get("num_key_value_heads") or heads,
            facts.get("head_dim") or hidden // heads,
            length,
            "layers" if spiking else None,
        )
    except KeyError as error:
        kind = facts.get("model_type", "model of no known type")
        raise ConfigError(f"the matmuls of a {kind} are not known: its config.json has no {error}") from error


def encoder_decoder_terms(facts: Mapping[str, Any], source: int, target: int, beams: int = 1) -> list[Term]:
    """The matmuls of a saved BART, mBART or Marian that writes with a cache, without the LM head, by its `config.json`.

    `target` counts decoder steps. The two stacks may have FFNs of different widths.
    """
    try:
        sizes = facts["encoder_layers"], facts["decoder_layers"], facts["d_model"]
        widths = facts["encoder_ffn_dim"], facts["decoder_ffn_dim"]
    except KeyError as error:
        kind = facts.get("model_type", "model of no known type")
        raise ConfigError(f"the matmuls of a {kind} are not known: its config.json has no {error}") from error
    reading, writing = (seq2seq_terms(*sizes, wide, source, target, beams, causal=True) for wide in widths)
    encoder = [term for term in reading if not term.name.startswith("decoder")]
    return encoder + [term for term in writing if term.name.startswith("decoder")]


def lm_head_terms(hidden: int, vocab: int, target: int, beams: int = 1) -> list[Term]:
    """The LM head, real-valued and paid once after the mean over T; the paper's figures leave it out."""
    check_sizes(hidden=hidden, vocab=vocab, target=target, beams=beams)
    return [Term("lm head", None, beams * target * hidden * vocab)]


def bertsum_terms(
    layers: int, decoder_layers: int, hidden: int, widths: tuple[int, int], source: int, target: int, beams: int = 1
) -> list[Term]:
    """The matmuls of BERTSUMABS: of a BERT, and of a decoder whose FFN has another width than the BERT's."""
    encoder = encoder_terms(layers, hidden, widths[0], source)
    both = seq2seq_terms(1, decoder_layers, hidden, widths[1], source, target, beams)
    return encoder + [term for term in both if term.name.startswith("decoder")]


def spikformer_terms(layers: int, hidden: int, intermediate: int, length: int) -> list[Term]:
    """The matmuls of SpikeBERT's student, whose residual adds up spikes: x = s_0 + s_1 + ...

    W x is W s_0 + W s_1 + ..., one term of additions for each neuron that has added to x. Nothing is multiplied, and
    the additions may be more than the plain model's MACs. (q k') v has spikes on both sides of the first product and on
    the right of the second.
    """
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
    """The matmuls of SpikeGPT: four linears of the time mix and three of the channel mix, which all read real values.

    Its spikes go from block to block and save no multiplication; the recurrence itself multiplies no matrices.
    """
    check_sizes(layers=layers, hidden=hidden, intermediate=intermediate, length=length)
    square, wide = length * hidden**2, length * hidden * intermediate
    time = [(f"time {name}", square) for name in ("receptance", "key", "value", "output")]
    channel = [("channel receptance", square), ("channel key", wide), ("channel value", wide)]
    return [Term(name, None, macs, layer) for layer in range(layers) for name, macs in (*time, *channel)]


def lstm_macs(inputs: int, cells: int, projection: int | None = None) -> int:
    """MACs of one token through one direction of an LSTM layer: 4 c (x + h), and c h where the cells are projected."""
    check_sizes(inputs=inputs, cells=cells)
    state = projection or cells
    return 4 * cells * (inputs + state) + (cells * projection if projection else 0)


def character_macs(characters: int, size: int, filters: Sequence[int], highways: int, hidden: int) -> int:
    """MACs of one word from its characters: sum_w f_w w s (C - w + 1), highways 2 F^2 each, projection F h."""
    width = sum(filters)
    convolutions = sum(count * w * size * (characters - w + 1) for w, count in enumerate(filters, start=1))
    return convolutions + highways * 2 * width**2 + width * hidden


def bilm_terms(layers: int, hidden: int, cells: int, own: dict[str, Any], length: int) -> list[Term]:
    """The matmuls of ELMo's biLM over `length` tokens, without its softmax."""
    word = character_macs(own["characters"], own["character_size"], own["filters"], own["highways"], hidden)
    one = 2 * lstm_macs(hidden, cells, hidden if cells > hidden else None)
    return [Term("words from characters", None, length * word)] + [
        Term("biLSTM", None, length * one, layer) for layer in range(layers)
    ]


def elmo_terms(
    layers: int, hidden: int, cells: int, own: dict[str, Any], length: int, pairs: bool, labels: int
) -> list[Term]:
    """The biLM and the task's own BiLSTM and MLP; two sentences have `length` tokens together."""
    task = own["task_hidden"]
    pooled = 2 * task * (4 if pairs else 1)
    return [
        *bilm_terms(layers, hidden, cells, own, length),
        Term("task BiLSTM", None, length * 2 * lstm_macs(2 * hidden, task)),
        Term("task MLP", None, pooled * own["task_mlp"] + own["task_mlp"] * labels),
    ]


def pointer_terms(
    embedding: int, hidden: int, source: int, target: int, beams: int = 1, head: int | None = None
) -> list[Term]:
    """The matmuls of a pointer-generator; with `head` words of its vocabulary, the LM head as the last term."""
    check_sizes(embedding=embedding, hidden=hidden, source=source, target=target, beams=beams)
    both = 2 * hidden  # of the encoder's directions, and of h and c
    tokens = beams * target
    terms = [
        Term("encoder biLSTM", None, source * 2 * lstm_macs(embedding, hidden)),
        Term("encoder features", None, source * both**2),
        Term("first state", None, 2 * both * hidden),
        Term("decoder LSTM", None, tokens * ((embedding + both) * embedding + lstm_macs(embedding, hidden))),
        Term("attention", None, tokens * (both**2 + 2 * source * both)),
        Term("switch", None, tokens * (2 * both + embedding)),
        Term("output", None, tokens * 3 * hidden * hidden),
    ]
    return [*terms, Term("lm head", None, tokens * hidden * head)] if head else terms
