"""What counted operations would cost: several estimators of energy, each by its own rule, none of them measured.

An estimator is a function of a `ModelCounts` alone. docs/guide/energy.md has the formulas with their sources, and says
what each number means and what it does not. Every estimate is there for three networks: the one that ran, the plain
model of its size, and its quantised twin, which computes every value once with as many levels as its spikes add up to.

Constants are those of Horowitz (ISSCC 2014, 45 nm, 0.9 V), as other texts quote them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spikelm.catalog.counts import TOGETHER, ModelCounts, ProductCount
from spikelm.catalog.energy import PICOJOULE

Network = Literal["network", "plain", "twin"]
NETWORKS: tuple[Network, ...] = ("network", "plain", "twin")
Traffic = dict[str, float]  # bits moved by kind
Cheaper = Literal["", "below", "always", "never"]

MJ = 1e-9  # millijoules in a picojoule
TWIN_BITS = 8  # of activations, where no spikes say how many levels there are
WORD = 32  # bits of sums, membranes and real values
INT_ADD = 0.1  # pJ, 32 bits; Horowitz
INT_MULTIPLY = 0.2  # pJ, 8 by 8 bits; Horowitz
INT32_MULTIPLY = 3.1  # pJ; Horowitz
#: pJ a bit: an access of 64 bits costs 20, 100 and 1,300 pJ (Horowitz)
BUFFER = 20 / 64  # 32 kB
BANK = 100 / 64  # 1 MB
DRAM = 1300 / 64
#: Lemaire et al. (ICONIP 2022), as in the code of their group: an access costs SLOPE * bits of the memory + LEAST
SLOPE, LEAST = 1.09e-5, 13.2
FITTED = 8_000_000  # bits of the largest memory that this line was fitted to; larger ones are banks of it


@dataclass(frozen=True)
class Arithmetic:
    """Number format of weights, and what an addition and a multiplication with its addition cost in it."""

    name: str
    weight_bits: int
    value_bits: int  # of real-valued activations
    addition: float  # pJ, of a spike's weight
    mac: float  # pJ, of real values
    whole: bool = False  # a quantised twin multiplies whole numbers

    def twin_mac(self, bits: int) -> float:
        """Of an activation of so many bits: a product grows with the bits of both sides, a sum has 32 bits."""
        return INT_MULTIPLY * bits * self.weight_bits / 64 + INT_ADD if self.whole else self.mac


FP32 = Arithmetic("fp32", 32, 32, addition=PICOJOULE["fp32"][1], mac=PICOJOULE["fp32"][0])
FP16 = Arithmetic("fp16", 16, 16, addition=PICOJOULE["fp16"][1], mac=PICOJOULE["fp16"][0])
#: weights of 8 bits, sums of 32; what stays real-valued in all networks is charged in fp32
INT8 = Arithmetic("int8", 8, WORD, addition=INT_ADD, mac=PICOJOULE["fp32"][0], whole=True)


@dataclass(frozen=True)
class Hierarchy:
    """Where values are kept, and how long: all that the memory-aware estimate takes for granted."""

    together: int = TOGETHER  # vectors that share a weight that was read: 1 or `TOGETHER`
    batch: int = 1  # inputs that share what is read from DRAM
    chip: int = 8_000_000  # bytes of weights that stay on the chip


@dataclass(frozen=True)
class Estimate:
    """One line of the card: an estimator in one arithmetic, for the three networks, in mJ an inference."""

    estimator: str
    arithmetic: str
    network: float
    plain: float
    twin: float
    break_even: float | None = None  # spikes a value and time step at which the network costs what its twin costs
    cheaper: Cheaper = ""  # at which rates the network costs less than its twin; empty where nothing fires

    @property
    def key(self) -> str:
        """Its name as a column of tables and on W&B: memory_16_int8."""
        return f"{self.estimator}_{self.arithmetic}".replace("-", "_")

    @property
    def sentence(self) -> str:
        """The break-even in words."""
        if self.cheaper == "always":
            return "cheaper than its twin at any firing rate"
        if self.cheaper == "never":
            return "dearer than its twin even if nothing fired"
        return "" if self.break_even is None else f"costs what its twin costs at {self.break_even:.3g} spikes a value"


@dataclass(frozen=True)
class Estimator:
    """A rule by name, in one arithmetic."""

    name: str
    arithmetic: Arithmetic
    rule: Callable[[ModelCounts, Arithmetic, Network], float]  # pJ of all inputs

    def mj(self, counts: ModelCounts, network: Network) -> float:
        """Millijoules of one inference."""
        return self.rule(counts, self.arithmetic, network) * MJ / counts.rows


def paper_rule(counts: ModelCounts, arithmetic: Arithmetic, network: Network) -> float:
    """The paper's: matrix products of the blocks; 0.9 pJ a spike and weight, 4.6 pJ a multiplication.

    It knows no integers and no memory: a quantised twin costs what the plain model costs.
    """
    if network == "network":
        return sum(_operations(counts, one, arithmetic, network) for one in counts.blocks)
    return sum(one.twin_macs * arithmetic.mac for one in counts.blocks)


def operations_rule(counts: ModelCounts, arithmetic: Arithmetic, network: Network) -> float:
    """Operations of all matrix products alone, where the twin leaves out its zeros as well."""
    return sum(_operations(counts, one, arithmetic, network) for one in counts.products)


def memory_rule(hierarchy: Hierarchy) -> Callable[[ModelCounts, Arithmetic, Network], float]:
    """Operations, and every bit that moves, at the price of the memory that it is in."""

    def rule(counts: ModelCounts, arithmetic: Arithmetic, network: Network) -> float:
        pj = operations_rule(counts, arithmetic, network)
        if network == "network":
            pj += arithmetic.addition * sum(one.updates for one in counts.neurons)
            pj += INT_ADD * sum(one.events for one in counts.products if one.spike_driven)  # an address each
        moved = traffic(counts, arithmetic, network, hierarchy)
        return pj + sum(bits * PRICES[kind] for kind, bits in moved.items())

    return rule


#: pJ a bit of each kind of traffic
PRICES: Mapping[str, float] = {
    "weights": BANK,
    "weights from DRAM": DRAM,
    "embeddings": BANK,
    "embeddings from DRAM": DRAM,
    "activations": BUFFER,
    "spikes": BUFFER,
    "membranes": BUFFER,
    "KV cache": BUFFER,
}


def traffic(counts: ModelCounts, arithmetic: Arithmetic, network: Network, hierarchy: Hierarchy) -> Traffic:
    """Bits moved by kind, of all inputs: an operand is read from its memory, a result is written once."""
    moved = dict.fromkeys(PRICES, 0.0)
    once = network != "network"  # all steps as one
    passes = counts.rows / hierarchy.batch / counts.passes  # over the weights, for each that was watched
    for one in counts.products:
        steps = one.steps if once else 1
        vectors, others = "activations", "weights" if one.weights else "activations"
        if one.cached:  # keys and values are the spiking side, or the other one
            vectors, others = ("KV cache", others) if one.spike_driven else (vectors, "KV cache")
        fetched = _fetched(counts, one, arithmetic, network, hierarchy.together)
        moved[others] += fetched * (arithmetic.weight_bits if one.weights else arithmetic.value_bits)
        moved["weights from DRAM"] += one.weights * arithmetic.weight_bits * one.calls * passes
        if one.spike_driven and not once:
            moved["KV cache" if one.cached else "spikes"] += _spike_bits(one)
        else:
            moved[vectors] += one.inputs / steps * (_bits(counts, one, arithmetic, network) or arithmetic.value_bits)
        moved["activations"] += one.written / steps * WORD
    if counts.weights * arithmetic.weight_bits <= 8 * hierarchy.chip:
        moved["weights from DRAM"] = 0.0
    on_chip = counts.parameters * arithmetic.weight_bits <= 8 * hierarchy.chip
    moved["embeddings" if on_chip else "embeddings from DRAM"] = counts.looked_up * arithmetic.weight_bits
    for operator in counts.operators:
        moved["activations"] += 2 * operator.values / (operator.steps if once else 1) * WORD
    if not once and counts.T > 1:  # a membrane is written at a step and read at the next
        stateful = sum(one.updates for one in counts.neurons if one.stateful)
        moved["membranes"] = 2 * stateful * (counts.T - 1) / counts.T * WORD
    return moved


def lemaire_rule(counts: ModelCounts, arithmetic: Arithmetic, network: Network) -> float:
    """Lemaire et al. (2022): every spike reads a weight, reads a potential and writes it.

    A dense product reads a weight for each multiplication. Each memory is as large as what it holds, and costs by its
    size. Their errors that the code of their group corrects are corrected here; addresses count every spike.
    """
    pj = 0.0
    for one in counts.products:
        matrix = one.weights or one.inner * one.columns
        weights, results = _access(matrix * arithmetic.weight_bits), _access(one.columns * WORD)
        if one.spike_driven and network == "network":
            pj += one.events * LEAST + one.active * weights + one.written * results
            pj += 2 * (one.active + one.written) * results
            pj += (one.active + one.written + one.active) * INT_ADD
            continue
        bits = _bits(counts, one, arithmetic, network)
        steps = 1 if network == "network" else one.steps
        macs = one.macs if network == "network" else one.distinct if network == "twin" and bits else one.twin_macs
        multiply = INT_MULTIPLY * bits * arithmetic.weight_bits / 64 if bits else INT32_MULTIPLY
        read = one.inputs / steps
        pj += read * _access(one.inner * WORD) + macs * weights + 2 * one.written / steps * results
        pj += macs * (multiply + 2 * INT_ADD) + one.written / steps * INT_ADD
    if network == "network":
        for neuron in counts.neurons:
            pj += neuron.events * (LEAST + INT_ADD)
            pj += neuron.updates * (INT32_MULTIPLY + INT_ADD) if neuron.stateful else 0.0
    return pj


def _access(bits: float) -> float:
    """pJ of reading or writing one element of a memory of so many bits."""
    return SLOPE * min(bits, FITTED) + LEAST


def _operations(counts: ModelCounts, one: ProductCount, arithmetic: Arithmetic, network: Network) -> float:
    """pJ of the additions and multiplications of a product."""
    if network == "network" and one.spike_driven:
        return one.active * arithmetic.addition
    bits = _bits(counts, one, arithmetic, network)
    macs = one.macs if network == "network" else one.distinct if network == "twin" and bits else one.twin_macs
    return macs * (arithmetic.mac if bits is None else arithmetic.twin_mac(bits))


def _bits(counts: ModelCounts, one: ProductCount, arithmetic: Arithmetic, network: Network) -> int | None:
    """Bits of the activations where they are whole numbers; None where they are real-valued.

    What stays real-valued in a spiking network stays so in the networks that it is compared with.
    """
    if one.kind == "opaque" or (counts.spiking and not one.spike_driven):
        return None
    if network == "twin":
        return max(1, math.ceil(math.log2(one.twin_levels))) if one.spike_driven else TWIN_BITS
    return TWIN_BITS if arithmetic.whole and (network == "plain" or not one.spike_driven) else None


def _spike_bits(one: ProductCount) -> float:
    """Bits of the spikes that a product reads: a bitmap of places and signs, or the addresses of the spikes."""
    address = math.ceil(math.log2(max(2, one.inner))) + one.signed
    return min(one.inputs * one.virtual_steps * (1 + one.signed), one.events * address)


def _fetched(counts: ModelCounts, one: ProductCount, arithmetic: Arithmetic, network: Network, together: int) -> float:
    """Values of the other side that are read."""
    if network == "network" and one.spike_driven:
        return one.fetched if together == 1 else one.fetched_together
    if network == "twin" and _bits(counts, one, arithmetic, network):
        return one.distinct if together == 1 else one.twin_fetched_together
    return (one.macs if network == "network" else one.twin_macs) / max(1, min(together, one.sharing))


ESTIMATORS: tuple[Estimator, ...] = (
    Estimator("paper", FP32, paper_rule),
    Estimator("paper", FP16, paper_rule),
    Estimator("operations", INT8, operations_rule),
    Estimator("memory-1", FP32, memory_rule(Hierarchy(together=1))),
    Estimator("memory-16", FP32, memory_rule(Hierarchy())),
    Estimator("memory-1", INT8, memory_rule(Hierarchy(together=1))),
    Estimator("memory-16", INT8, memory_rule(Hierarchy())),
    Estimator("lemaire", INT8, lemaire_rule),
)
#: whose each estimator is, and what it counts
WHOSE = {
    "paper": "modelled by SpikeLM, section 5.1: operations of the blocks' matrix products alone; its twin is dense",
    "operations": "modelled by us: all matrix products in integers of Horowitz's table, where a twin skips its zeros",
    "memory-1": "modelled by us: operations and every bit that moves, by Horowitz's memories; one token at a time",
    "memory-16": "the same, 16 tokens side by side share each weight that is read",
    "lemaire": "modelled by Lemaire et al. 2022: each spike reads a weight and reads and writes a potential",
}


#: the key of each line, which tables, claims and W&B know it by
KEYS = tuple(f"{one.name}_{one.arithmetic.name}".replace("-", "_") for one in ESTIMATORS)


def estimates(counts: ModelCounts) -> list[Estimate]:
    """Every estimator for the three networks, in mJ an inference, with where spikes stop paying."""
    return [_estimate(counts, estimator) for estimator in ESTIMATORS]


def _estimate(counts: ModelCounts, estimator: Estimator) -> Estimate:
    network, plain, twin = (estimator.mj(counts, of) for of in NETWORKS)
    line = Estimate(estimator.name, estimator.arithmetic.name, network, plain, twin)
    rate = counts.firing_rate
    if not rate:
        return line
    most = counts.most_spikes / rate
    cheaper, scale = _crossing(lambda scale: estimator.mj(counts.at_rate(scale), "network"), line.twin, most)
    return replace(line, cheaper=cheaper, break_even=rate * scale if cheaper == "below" else None)


def _crossing(cost: Callable[[float], float], level: float, most: float) -> tuple[Cheaper, float]:
    """Where a cost that grows reaches a level, between 0 and `most`."""
    if cost(0.0) >= level:
        return "never", 0.0
    if cost(most) <= level:
        return "always", most
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) < level else (low, middle)
    return "below", (low + high) / 2


# --- counts by NeuroBench's rules ---


@dataclass(frozen=True)
class SynapticOperations:
    """Operations of one inference as NeuroBench 2.3 counts them, and what it would not see."""

    dense: float
    effective_macs: float
    effective_acs: float  # of layers all of whose inputs are -1, 0 or 1
    missed_macs: float  # dense operations of products that run in none of the modules that it looks at


def synaptic_operations(counts: ModelCounts) -> SynapticOperations:
    """By NeuroBench's rule: pairs of an input and a weight of which neither is zero, in Linear and convolutions."""
    hooked = [one for one in counts.products if one.hooked]
    return SynapticOperations(
        dense=sum(one.macs for one in hooked) / counts.rows,
        effective_macs=sum(one.effective for one in hooked if not one.unit) / counts.rows,
        effective_acs=sum(one.effective for one in hooked if one.unit) / counts.rows,
        missed_macs=sum(one.macs for one in counts.products if not one.hooked) / counts.rows,
    )
