"""What was counted while a model ran: each product of two matrices, each neuron, and what is computed besides.

These records are what estimators of energy read (`spikelm/catalog/estimators.py`). All numbers are sums over the inputs
that ran; a product of a model with T time steps is there with all of its steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

TOGETHER = 16  # vectors (tokens) that are worked on side by side, in one of the two cases that are estimated

Part = Literal["encoder", "neuron", "outside"]
Kind = Literal["linear", "query x key", "attention x value", "opaque"]
Reads = Literal["spikes", "unfolded spikes", "summed spikes", "real values"]

#: why a product is additions alone, or why it is not
REASONS: dict[Reads, str] = {
    "spikes": "every activation is -a, 0 or a at each time step",
    "unfolded spikes": "every activation is the sum of spikes that its neuron names, each -a, 0 or a",
    "summed spikes": "every activation is a whole number of spikes that were added up",
    "real values": "both sides hold real values",
}


@dataclass(frozen=True)
class ProductCount:
    """One product of two matrices: what it read and how many operations it takes, summed over its calls."""

    module: str
    kind: Kind
    part: Part
    reads: Reads
    hooked: bool  # it ran in a Linear or convolution of torch's own, the modules that NeuroBench looks at
    unit: bool  # every activation is -1, 0 or 1: what NeuroBench takes for a spike
    signed: bool  # some spikes are negative
    cached: bool  # its right side was read from a KV cache
    steps: int  # time steps among its calls: 1 behind the mean over time
    levels: int  # values that the spikes of one activation can add up to in one time step; 0 of real values
    calls: int
    macs: int  # dense: each value meets each
    active: int  # without activations that are zero: the additions of spikes, each spike by itself
    effective: int  # pairs of which neither is zero, weights included: NeuroBench's rule
    distinct: int  # as `active` of one value in place of the spikes of all steps: what a quantised twin would take
    events: int  # spikes, or activations that are not zero
    fetched: int  # values of the other side read for one vector at a time, those that meet a zero left out
    fetched_together: int  # the same for `TOGETHER` vectors side by side: read once where any of them is not zero
    twin_fetched_together: int  # the same of a quantised twin; what it fetches for one vector is `distinct`
    sharing: int  # vectors of one call that meet the same values of the other side
    inner: int  # values that one sum adds up
    columns: int  # values of the result from one vector
    weights: int  # of a linear, once
    inputs: int  # activations on the spiking side, else on the left one
    virtual_steps: int  # places for a spike in each of them
    written: int  # values of the result
    bytes_seen: int  # of both sides and the result, as torch held them

    @property
    def spike_driven(self) -> bool:
        """Whether additions are enough."""
        return self.reads != "real values"

    @property
    def block(self) -> str:
        """The numbered block that it is in, "encoder.layer.3"; else its module."""
        return block_of(self.module)

    @property
    def twin_levels(self) -> int:
        """Values that the spikes of one activation can add up to over all steps, if those of all steps are as high."""
        return (self.levels - 1) * self.steps + 1 if self.levels else 0

    @property
    def twin_macs(self) -> int:
        """Dense multiplications of a network that computes each value once, in place of at every step."""
        return self.macs // self.steps

    @property
    def reason(self) -> str:
        """Why it takes additions alone, or multiplications."""
        return "it runs inside one call of the backend" if self.kind == "opaque" else REASONS[self.reads]


@dataclass(frozen=True)
class NeuronCount:
    """The neurons of one site: the values that they read at all time steps, and the spikes that they gave."""

    site: str
    updates: int
    events: int
    silent: int  # values that are zero: none of their spikes fired
    virtual_steps: int
    stateful: bool  # a membrane is kept from one time step to the next
    signed: bool

    @property
    def rate(self) -> float:
        """Spikes a value."""
        return self.events / self.updates if self.updates else 0.0

    def plus(self, other: NeuronCount) -> NeuronCount:
        """The same neurons on more values."""
        return replace(
            self,
            updates=self.updates + other.updates,
            events=self.events + other.events,
            silent=self.silent + other.silent,
            virtual_steps=max(self.virtual_steps, other.virtual_steps),
            signed=self.signed or other.signed,
        )


@dataclass(frozen=True)
class OperatorCount:
    """Something that is computed besides products of matrices, and the values that it gave."""

    module: str
    name: str
    arithmetic: str
    part: Part
    steps: int
    values: int


@dataclass(frozen=True)
class ModelCounts:
    """A model and the inputs on which it was watched."""

    rows: int  # inputs: what one inference is
    passes: int  # batches in which they ran
    T: int
    products: tuple[ProductCount, ...]
    neurons: tuple[NeuronCount, ...]
    operators: tuple[OperatorCount, ...]
    looked_up: int  # values read from tables of embeddings
    spiking: bool  # some product reads spikes
    weights: int  # of all products
    parameters: int
    footprint: int  # bytes of parameters and buffers, as torch holds them

    @property
    def blocks(self) -> tuple[ProductCount, ...]:
        """The products that the paper counts: of the encoder's blocks, and the decoder's."""
        return tuple(one for one in self.products if one.part == "encoder")

    @property
    def firing_rate(self) -> float | None:
        """Spikes a value, weighted by the multiplications that they stand for; None where nothing fires."""
        driven = [one for one in self.products if one.spike_driven]
        dense = sum(one.macs for one in driven)
        return sum(one.active for one in driven) / dense if dense else None

    @property
    def most_spikes(self) -> int:
        """Spikes that a value can take in one time step."""
        return max((one.virtual_steps for one in self.neurons), default=1)

    def by_block(self) -> dict[str, ModelCounts]:
        """The same by block, in the order in which the blocks ran."""

        def part(block: str) -> ModelCounts:
            return replace(
                self,
                products=tuple(one for one in self.products if one.block == block),
                neurons=tuple(one for one in self.neurons if block_of(one.site) == block),
                operators=tuple(one for one in self.operators if block_of(one.module) == block),
                looked_up=0,
            )

        return {block: part(block) for block in dict.fromkeys(one.block for one in self.products)}

    def at_rate(self, scale: float) -> ModelCounts:
        """The same network if every neuron fired `scale` times as often, each value independently of the others."""

        def fetched(some: int, vectors: int, one: ProductCount) -> int:
            most = one.macs / vectors
            if not most:
                return 0
            share = min(some, most - 0.5) / most  # where nothing was left out, hardly anything: half a value
            return round(most * (1 - (1 - share) ** scale))

        def scaled(one: ProductCount) -> ProductCount:
            if not one.spike_driven:
                return one
            kept = one.steps if one.kind == "linear" else 1
            return replace(
                one,
                active=round(one.active * scale),
                events=round(one.events * scale),
                fetched=fetched(one.fetched, kept, one),
                fetched_together=fetched(one.fetched_together, kept * max(1, min(TOGETHER, one.sharing)), one),
            )

        neurons = tuple(replace(one, events=round(one.events * scale)) for one in self.neurons)
        return replace(self, products=tuple(map(scaled, self.products)), neurons=neurons)


def block_of(module: str) -> str:
    """A module's name up to the first number in it; the whole name where it has none."""
    found = re.match(r"((?:.*?\.)?\d+)(?:\.|$)", module)
    return found[1] if found else module


def merged(products: Iterable[ProductCount]) -> tuple[ProductCount, ...]:
    """Calls of the same module with the same kind of operands as one, in the order in which they first ran."""
    groups: dict[tuple[object, ...], ProductCount] = {}
    for one in products:
        key = (one.module, one.kind, one.part, one.reads, one.hooked, one.unit, one.cached, one.steps, one.weights)
        before = groups.get(key)
        groups[key] = one if before is None else _sum(before, one)
    return tuple(groups.values())


_SUMMED = (
    *("calls", "macs", "active", "effective", "distinct", "events", "inputs", "written", "bytes_seen"),
    *("fetched", "fetched_together", "twin_fetched_together"),
)


def _sum(one: ProductCount, other: ProductCount) -> ProductCount:
    return replace(
        one,
        signed=one.signed or other.signed,
        levels=max(one.levels, other.levels),
        sharing=max(one.sharing, other.sharing),
        inner=max(one.inner, other.inner),
        columns=max(one.columns, other.columns),
        virtual_steps=max(one.virtual_steps, other.virtual_steps),
        **{name: getattr(one, name) + getattr(other, name) for name in _SUMMED},
    )


# --- as lines of text, which a result keeps: a header with the names of the fields, and a line for each record ---

Record = TypeVar("Record", ProductCount, NeuronCount, OperatorCount)
_KINDS: dict[str, Callable[[str], Any]] = {"int": int, "bool": lambda text: text == "1"}


def to_lines(records: Sequence[Record]) -> list[str]:
    """Records of one kind as lines with commas; no lines of no records."""
    if not records:
        return []
    names = [one.name for one in fields(records[0])]
    values: list[list[Any]] = [[getattr(record, name) for name in names] for record in records]
    return [",".join(names), *(",".join(str(int(x) if isinstance(x, bool) else x) for x in row) for row in values)]


def from_lines(kind: type[Record], lines: Sequence[str]) -> tuple[Record, ...]:
    """Records from their lines; a ValueError where they are not of this kind."""
    if not lines:
        return ()
    known = {one.name: str(one.type) for one in fields(kind)}
    names = lines[0].split(",")
    if names != list(known):
        raise ValueError(f"has the columns {lines[0]}, not {','.join(known)}")
    convert = [_KINDS.get(known[name], str) for name in names]
    return tuple(
        kind(*(to(text) for to, text in zip(convert, line.split(","), strict=True)))  # type: ignore[arg-type]
        for line in lines[1:]
    )
