"""The counts of an encoder from its sizes and firing rates alone, where no card was made of it.

A firing rate does not say which values fire together: at several time steps, or in several tokens. On that depend the
weights that are read, and the values of a quantised twin that are not zero. They are expected as if each value fired
independently of the others, or bounded from both sides; a real card counts them (spikelm/measure/card.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from spikelm.catalog.counts import TOGETHER, ModelCounts, NeuronCount, OperatorCount, ProductCount
from spikelm.catalog.energy import Term, site_rate
from spikelm.catalog.size import Size

Together = Literal["independent", "always", "never"]  # which values fire at several steps and in several tokens

STATELESS = ("key_out", "value_out")  # sites whose neurons keep no membrane


def expected_counts(
    terms: Iterable[Term],
    rates: Mapping[str, float] | None,
    size: Size,
    length: int,
    T: int = 1,
    *,
    signed: bool = True,
    virtual_steps: int = 1,
    parameters: int = 0,
    together: Together = "independent",
) -> ModelCounts:
    """The counts of one text of `length` tokens through an encoder of BERT's blocks; without rates it is plain.

    Args:
        terms: Its matrix products, as `encoder_terms` gives them.
        rates: The firing rate of each site.
        size: Of the backbone.
        length: Tokens.
        T: Time steps.
        signed: Whether spikes go in both directions.
        virtual_steps: The most spikes of a value in one time step.
        parameters: Of the model, with its embeddings.
        together: Whether the values that fire at one step fire at the others as well, and those of one token in the
            others: each independently, always the same (the fewest are not zero), or never the same (the most).
    """
    listed = list(terms)
    products = [_product(term, rates, size, length, T, signed, virtual_steps, together) for term in listed]
    sites = {term.site: term for term in listed if term.site} if rates is not None else {}
    neurons = []
    for site, term in sites.items():
        assert rates is not None
        values = T * length * (size.intermediate if term.name == "ffn2" else size.hidden)
        rate = site_rate(site, rates)
        events = round(rate * values)
        stateful = T > 1 and site.rpartition(".")[2] not in STATELESS
        silent = round(values * max(0.0, 1 - rate))
        neurons.append(NeuronCount(site, values, events, silent, virtual_steps, stateful, signed))
    steps = T if rates is not None else 1
    weights = sum(one.weights for one in products)
    operators = [
        OperatorCount(f"encoder.layer.{layer}", name, "real-valued", "encoder", steps, steps * values)
        for layer in range(size.layers)
        for name, values in (
            ("softmax", size.heads * length * length),
            ("LayerNorm", 2 * length * size.hidden),
            ("GELU", length * size.intermediate),
        )
    ]
    operators.append(OperatorCount("embeddings", "LayerNorm", "real-valued", "outside", 1, length * size.hidden))
    return ModelCounts(
        rows=1,
        passes=1,
        T=T,
        products=tuple(products),
        neurons=tuple(neurons),
        operators=tuple(operators),
        looked_up=3 * length * size.hidden,
        spiking=any(one.spike_driven for one in products),
        weights=weights,
        parameters=parameters or weights,
        footprint=4 * (parameters or weights),
    )


def _any(rate: float, number: int, together: Together) -> float:
    """The share of values that fire at least once in so many steps or tokens."""
    share = min(1.0, rate)
    if together == "always":
        return share
    return min(1.0, number * share) if together == "never" else 1 - (1 - share) ** number


def _product(
    term: Term,
    rates: Mapping[str, float] | None,
    size: Size,
    length: int,
    T: int,
    signed: bool,
    virtual_steps: int,
    together: Together,
) -> ProductCount:
    attention = " x " in term.name
    head = size.hidden // size.heads
    if attention:
        inner, columns = (head, length) if term.name == "query x key" else (length, head)
        inputs = length * size.hidden if rates is not None or inner == head else size.heads * length * length
        inner = head if rates is not None else inner  # keys, and values by channel, are the vectors
    else:
        inner = size.intermediate if term.name == "ffn2" else size.hidden
        columns = size.intermediate if term.name == "ffn1" else size.hidden
        inputs = length * inner
    fires = rates is not None and term.site is not None
    rate = site_rate(term.site, rates) if fires and term.site and rates is not None else 1.0
    steps = T if rates is not None else 1
    any_step = _any(rate, steps, together)
    sharing = length
    if attention and term.name != "query x key" and fires:
        sharing = head
    groups = max(1, min(TOGETHER, sharing))
    over_time = term.macs / groups * _any(any_step, groups, together)
    written = term.macs // inner if not attention else term.macs // (head if term.name == "query x key" else length)
    macs = term.macs * steps
    return ProductCount(
        module=term.site.rpartition(".")[0] + f".{term.name}" if term.site else term.name,
        kind=("query x key" if term.name == "query x key" else "attention x value") if attention else "linear",
        part="encoder",
        reads="real values" if not fires else "unfolded spikes" if virtual_steps > 1 else "spikes",
        hooked=not attention,
        unit=False,
        signed=signed and fires,
        cached=False,
        steps=steps,
        levels=(2 if signed else 1) * virtual_steps + 1 if fires else 0,
        calls=1,
        macs=macs,
        active=round(macs * rate),
        effective=round(macs * min(1.0, rate)),
        distinct=round(term.macs * any_step),
        events=round(rate * inputs * steps),
        fetched=round(macs * min(1.0, rate)) if attention else round(term.macs * any_step),
        fetched_together=round(macs / groups * _any(rate, groups, together)) if attention else round(over_time),
        twin_fetched_together=round(over_time),
        sharing=sharing,
        inner=inner,
        columns=columns,
        weights=0 if attention else inner * columns,
        inputs=inputs * steps,
        virtual_steps=virtual_steps if fires else 1,
        written=written * steps,
        bytes_seen=0,
    )
