"""Energy of a Transformer's matmuls (paper section 5.1), in pure Python so that it answers at once.

ANN: E = sum MACs * E_mac.    SNN: E = sum MACs * T * r_site * E_ac, r_site the firing rate of the spikes
that feed the matmul. Softmax, LayerNorm, GELU and the membrane update are not counted, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from spikelm.errors import ConfigError

Precision = Literal["fp32", "fp16"]

#: picojoule per operation in 45 nm (paper section 5.1): multiply-accumulate, accumulate
PICOJOULE: dict[str, tuple[float, float]] = {"fp32": (4.6, 0.9), "fp16": (1.5, 0.4)}


@dataclass(frozen=True)
class Term:
    """One matmul: the site whose spikes feed it (None: it stays real-valued), its MACs and its layer."""

    name: str
    site: str | None
    macs: int
    layer: int | None = None


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


def energy_mj(terms: Iterable[Term], precision: Precision = "fp32") -> float:
    """Energy of the ANN in mJ: every MAC costs one."""
    mac, _ = _picojoule(precision)
    return sum(term.macs for term in terms) * mac * 1e-9


def spiking_energy_mj(
    terms: Iterable[Term], rates: Mapping[str, float], T: int, precision: Precision = "fp32"
) -> float:
    """Energy of the SNN in mJ; a term without a site is real-valued and paid once, after the mean over T."""
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
    """The firing rate of one site, which must be there and lie in [0, 1]."""
    if site not in rates:
        raise ConfigError(f"no firing rate for site {site!r}", "measure a model of the same size")
    rate = rates[site]
    if not 0 <= rate <= 1:
        raise ConfigError(f"the firing rate of {site!r} is {rate}: it must lie between 0 and 1")
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
