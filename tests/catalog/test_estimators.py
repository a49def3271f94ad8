"""Estimators of energy against sums by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from spikelm.catalog.counts import ModelCounts, NeuronCount, ProductCount, block_of, merged
from spikelm.catalog.estimators import (
    BANK,
    FP16,
    FP32,
    INT8,
    Hierarchy,
    estimates,
    lemaire_rule,
    operations_rule,
    paper_rule,
    synaptic_operations,
    traffic,
)

TOKENS, SIZE = 128, 768
MACS = TOKENS * SIZE * SIZE
REAL = ProductCount(
    module="encoder.layer.0.dense", kind="linear", part="encoder", reads="real values", hooked=True, unit=False,
    signed=False, cached=False, steps=1, levels=0, calls=1, macs=MACS, active=MACS, effective=MACS, distinct=MACS,
    events=TOKENS * SIZE, fetched=MACS, fetched_together=MACS // 16, twin_fetched_together=MACS // 16, sharing=TOKENS,
    inner=SIZE, columns=SIZE, weights=SIZE * SIZE, inputs=TOKENS * SIZE, virtual_steps=1, written=TOKENS * SIZE,
    bytes_seen=0,
)  # fmt: skip
QUARTER = replace(
    REAL, reads="spikes", signed=True, levels=3, active=MACS // 4, effective=MACS // 4, distinct=MACS // 4,
    events=TOKENS * SIZE // 4, fetched=MACS // 4,
)  # fmt: skip


def counts(*products: ProductCount, T: int = 1, neurons: tuple[NeuronCount, ...] = ()) -> ModelCounts:
    weights = sum(one.weights for one in products)
    spiking = any(one.spike_driven for one in products)
    return ModelCounts(1, 1, T, products, neurons, (), 0, spiking, weights, weights, 4 * weights)


def microjoules(pj: float) -> float:
    return round(pj * 1e-6, 1)


def test_operations_of_a_linear_of_bert() -> None:
    """128 x 768 x 768 = 75.5 M: times 4.6, 0.3, 0.9/4 and 0.1/4 pJ; twins of 2 and 4 bits take 0.15 and 0.2."""
    plain, spiking = counts(REAL), counts(QUARTER)
    assert microjoules(operations_rule(plain, FP32, "network")) == 347.3
    assert microjoules(operations_rule(plain, INT8, "network")) == 22.6
    assert microjoules(operations_rule(spiking, FP32, "network")) == 17.0
    assert microjoules(operations_rule(spiking, INT8, "network")) == 1.9
    dense = replace(QUARTER, distinct=MACS)
    assert microjoules(operations_rule(counts(dense), INT8, "twin")) == 11.3
    four_steps = replace(dense, macs=4 * MACS, steps=4)
    assert four_steps.twin_levels == 9
    assert microjoules(operations_rule(counts(four_steps, T=4), INT8, "twin")) == 15.1
    assert microjoules(operations_rule(counts(four_steps, T=4), INT8, "plain")) == 22.6


def test_a_twin_skips_its_zeros() -> None:
    assert microjoules(operations_rule(counts(QUARTER), INT8, "twin")) == 2.8  # a quarter of 11.3


def test_weights_are_read_for_one_token_or_for_sixteen() -> None:
    """100 pJ for 64 bits of a bank of 1 MB; DRAM 1,300 pJ, where the weights do not fit the chip."""
    one, many = Hierarchy(together=1), Hierarchy()

    def uj(product: ProductCount, arithmetic: object, hierarchy: Hierarchy, network: str = "network") -> float:
        return microjoules(traffic(counts(product), arithmetic, network, hierarchy)["weights"] * BANK)  # type: ignore[arg-type]

    assert uj(REAL, FP32, one) == 3774.9
    assert uj(REAL, FP32, many) == 235.9
    assert uj(REAL, INT8, one) == 943.7
    assert uj(REAL, INT8, many) == 59.0
    assert uj(QUARTER, INT8, one) == 235.9
    assert uj(QUARTER, FP32, one) == 943.7
    assert uj(QUARTER, INT8, many) == 59.0, "sixteen tokens together leave hardly a row of weights unread"
    small = traffic(counts(REAL), FP32, "network", replace(many, chip=1))["weights from DRAM"]
    assert microjoules(small * 1300 / 64) == 383.4
    assert traffic(counts(REAL), FP32, "network", many)["weights from DRAM"] == 0
    assert traffic(counts(REAL), FP32, "network", Hierarchy(chip=1, batch=4))["weights from DRAM"] == small / 4


def test_one_token_shares_its_weights_with_nobody() -> None:
    decoding = replace(REAL, macs=SIZE * SIZE, sharing=1)
    assert traffic(counts(decoding), INT8, "network", Hierarchy())["weights"] == 8 * SIZE * SIZE


def test_traffic_of_spikes_and_membranes() -> None:
    """Two bits a place of a signed spike, or eleven an address: here the bitmap is smaller. Sums leave in 32 bits."""
    neurons = (NeuronCount("encoder.layer.0.site", 4 * 100, 90, 310, 1, True, True),)
    moved = traffic(counts(QUARTER, T=4, neurons=neurons), INT8, "network", Hierarchy())
    assert moved["spikes"] == 2 * TOKENS * SIZE
    assert moved["activations"] == 32 * TOKENS * SIZE
    assert moved["membranes"] == 2 * 3 * 100 * 32  # written after three of four steps, and read again
    rare = replace(QUARTER, events=10)
    assert traffic(counts(rare), INT8, "network", Hierarchy())["spikes"] == 10 * (10 + 1)
    twin = traffic(counts(QUARTER), INT8, "twin", Hierarchy())
    assert twin["activations"] == (2 + 32) * TOKENS * SIZE
    assert twin["spikes"] == twin["membranes"] == 0


def test_a_cache_of_spikes_is_read_as_spikes() -> None:
    keys = replace(QUARTER, kind="query x key", weights=0, cached=True)
    moved = traffic(counts(keys), FP32, "network", Hierarchy())
    assert moved["KV cache"] == 2 * TOKENS * SIZE
    assert traffic(counts(keys), FP32, "plain", Hierarchy())["KV cache"] == 32 * TOKENS * SIZE


def test_papers_rule_is_about_blocks() -> None:
    head = replace(REAL, module="classifier", part="outside")
    both = counts(QUARTER, head)
    assert paper_rule(both, FP32, "network") == MACS // 4 * 0.9
    assert paper_rule(both, FP16, "network") == MACS // 4 * 0.4
    assert paper_rule(both, FP32, "twin") == paper_rule(both, FP32, "plain") == MACS * 4.6
    assert operations_rule(both, FP32, "network") == pytest.approx(MACS // 4 * 0.9 + MACS * 4.6)


def test_lemaire_by_hand() -> None:
    """10 inputs, 5 neurons, 7 spikes at T=1: each spike reads 5 weights, reads 5 potentials and writes them."""
    layer = replace(
        QUARTER, macs=50, active=35, events=7, inner=10, columns=5, weights=50, inputs=10, written=5, distinct=35
    )  # fmt: skip
    weights, potentials = 1.09e-5 * 50 * 8 + 13.2, 1.09e-5 * 5 * 32 + 13.2
    memory = 7 * 13.2 + 35 * weights + 5 * potentials + 2 * (35 + 5) * potentials
    assert lemaire_rule(counts(layer), INT8, "network") == pytest.approx(memory + (35 + 5 + 35) * 0.1)
    dense = 10 * (1.09e-5 * 10 * 32 + 13.2) + 50 * weights + 2 * 5 * potentials
    of_plain = dense + 50 * (0.2 + 2 * 0.1) + 5 * 0.1
    assert lemaire_rule(counts(layer), INT8, "plain") == pytest.approx(of_plain)
    large = replace(REAL, weights=100 * SIZE * SIZE)
    cost = lemaire_rule(counts(large), INT8, "network") / MACS
    assert 100.4 < cost < 101.2, "a bank of 1 MB costs 100.4 pJ, and no more"


def test_break_even() -> None:
    """A twin of 4 bits takes 0.2 pJ where a spike takes 0.1: two spikes a value cost the same."""
    neurons = (NeuronCount("site", 100, 25, 75, 4, False, True),)
    sixteen = replace(QUARTER, levels=16, distinct=MACS, virtual_steps=4)
    lines = {(one.estimator, one.arithmetic): one for one in estimates(counts(sixteen, neurons=neurons))}
    line = lines["operations", "int8"]
    assert line.cheaper == "below"
    assert line.break_even == pytest.approx(2.0, rel=1e-6)
    assert "2 spikes a value" in line.sentence
    assert lines["paper", "fp32"].cheaper == "always"  # four spikes take 3.6 pJ, a product 4.6
    single = {(one.estimator, one.arithmetic): one for one in estimates(counts(replace(QUARTER, distinct=0)))}
    assert single["operations", "int8"].cheaper == "never"
    assert all(not one.cheaper and not one.sentence for one in estimates(counts(REAL)))


def test_at_another_rate_fewer_weights_are_read() -> None:
    """Of 16 vectors of which a quarter fires, 1 - 0.75^16 of the weights are read; at half the rate fewer."""
    many = replace(QUARTER, fetched_together=round(MACS / 16 * (1 - 0.75**16)))
    half = counts(many).at_rate(0.5).products[0]
    assert half.active == MACS // 8
    assert half.fetched == pytest.approx(MACS * (1 - 0.75**0.5), rel=1e-6)
    assert half.fetched_together == pytest.approx(MACS / 16 * (1 - 0.75**8), rel=1e-6)
    full = counts(QUARTER).at_rate(0.001).products[0]
    assert 0 < full.fetched_together < 0.1 * MACS / 16, "even where none was left out"
    assert counts(many).at_rate(0.0).products[0].fetched_together == 0


def test_neurobench_leaves_out_what_it_does_not_hook() -> None:
    inside = replace(REAL, hooked=False, module="attention")
    unit = replace(QUARTER, unit=True)
    seen = synaptic_operations(counts(REAL, inside, unit))
    assert (seen.dense, seen.effective_macs) == (2 * MACS, MACS)
    assert (seen.effective_acs, seen.missed_macs) == (MACS // 4, MACS)


def test_calls_of_a_module_are_one_product() -> None:
    twice = merged([REAL, QUARTER, REAL])
    assert [(one.calls, one.macs) for one in twice] == [(2, 2 * MACS), (1, MACS)]
    assert twice[0].weights == SIZE * SIZE, "the same weights"


@pytest.mark.parametrize(
    ("module", "block"), [("a.layer.3.b.0", "a.layer.3"), ("h.1", "h.1"), ("classifier", "classifier"), ("0", "0")]
)
def test_blocks(module: str, block: str) -> None:
    assert block_of(module) == block


def test_estimators_need_no_torch() -> None:
    code = "import sys, spikelm.catalog.estimators; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
