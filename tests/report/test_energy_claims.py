"""Claims of energy by other estimators, and energy cards in tables and on W&B."""

from __future__ import annotations

from pathlib import Path

import pytest
from canned import Canned, config_of, result

from spikelm.catalog.energy import encoder_terms
from spikelm.catalog.estimators import KEYS
from spikelm.catalog.expected_counts import expected_counts
from spikelm.config.paths import config_dir
from spikelm.report.claims.claims import Claim, check_energy_claim, load_energy_claims
from spikelm.report.claims.quantity_words import quantity_words
from spikelm.report.energy_cards import counts_of, estimates_of
from spikelm.report.page.details import _card
from spikelm.report.tables.build import system_measures
from spikelm.runs.experiment import _summary
from spikelm.store.result import EnergyCard, Result

CLAIMS = {claim.id: claim for claim in load_energy_claims()}
SIZE = config_of("spikelm_t4").backbone


def finished(system: str, rate: float | None, T: int = 1, card: bool = False) -> Result:
    """A pretrained run whose spikes all fire at one rate, with a card where they do so independently."""
    config = config_of(system)
    terms = encoder_terms(SIZE.layers, SIZE.hidden, SIZE.intermediate, config.measure.length)
    rates = None if rate is None else {str(term.site): rate for term in terms}
    more: dict[str, object] = {"config": config, "parameters": 1_000_000}
    more |= {"firing_rate": {"mean": rate, "per_site": rates or {}}}
    if card:
        more["energy_card"] = EnergyCard.of(expected_counts(terms, rates, SIZE, config.measure.length, T))
    return result("pretrain", {"loss": 1.0}, rate=rate, **more)


def store(tmp_path: Path, card: bool = False, **rates: float | None) -> Canned:
    steps = {"spikelm_t4": 4, "lif_bert": 4}
    known = {
        (system, "pretrain", 42): finished(system, rate, steps.get(system, 1), card) for system, rate in rates.items()
    }
    return Canned(known, tmp_path)


def test_every_claim_is_there_for_every_estimator() -> None:
    systems = {path.stem for path in (config_dir() / "system").glob("*.yaml")}
    assert {claim.id for claim in CLAIMS.values() if claim.id.startswith("saves-t4-")} == {
        f"saves-t4-{key}" for key in KEYS if key != "paper_fp16"
    }
    assert not any(claim.id == "below-twin-t1-paper_fp32" for claim in CLAIMS.values()), "the rule knows no integers"
    for claim in CLAIMS.values():
        assert {quantity.system for quantity in claim.ours.values()} <= systems
    words = quantity_words(CLAIMS["below-twin-t1-memory_16_int8"].ours["twin"])
    assert words == "SpikeLM, T=1: modelled energy of its quantised twin by memory 16 int8, mJ"


def status(claim: str, results: Canned) -> str:
    known: Claim = CLAIMS[claim]
    return check_energy_claim(known, results).status


def test_claims_by_hand(tmp_path: Path) -> None:
    """At rate 0.2 a spike takes 0.02 pJ of what its twin of two bits takes 0.03 for, where as many values are zero."""
    runs = store(tmp_path, bert=None, spikelm_t1=0.2)
    assert status("below-twin-t1-operations_int8", runs) == "held"
    assert status("saves-t1-paper_fp32", runs) == "held", "4.6 pJ against 0.18"
    assert status("saves-t1-memory_1_int8", runs) == "failed"
    assert status("saves-t4-memory_1_int8", runs) == "not run"


def test_what_a_rate_does_not_tell_stays_open(tmp_path: Path) -> None:
    """Four steps at rate 0.3 take 0.12 pJ a value; a twin of four bits 0.06 if the same values fire, else up to 0.2."""
    claim = CLAIMS["below-twin-t4-operations_int8"]
    verdict = check_energy_claim(claim, store(tmp_path, spikelm_t4=0.3))
    assert verdict.status == "not run"
    assert "which values fire together" in verdict.reason
    with_card = check_energy_claim(claim, store(tmp_path, card=True, spikelm_t4=0.3))
    assert with_card.status == "held", "1 - 0.7^4 of 0.2 pJ"
    assert with_card.numbers["twin"] / with_card.numbers["spikelm"] == pytest.approx(
        (1 - 0.7**4) * 0.2 / 0.12, rel=0.01
    )


def test_a_card_in_tables_on_the_page_and_on_wandb(tmp_path: Path) -> None:
    run = finished("spikelm_t4", 0.3, T=4, card=True)
    lines = {line.key: line for line in estimates_of(run)}
    values = system_measures(Canned({("spikelm_t4", "pretrain", 42): run}, tmp_path), "spikelm_t4", [], 42)
    assert values["energy_memory_16_int8"].value == lines["memory_16_int8"].network
    twin = lines["memory_16_int8"].network / lines["memory_16_int8"].twin
    assert values["energy_twin_memory_16_int8"].value == pytest.approx(twin)
    assert _summary(run)["energy_card/memory_16_int8/twin"] == lines["memory_16_int8"].twin
    shown, counts = _card(run), counts_of(run)
    assert shown is not None
    assert counts is not None
    assert [block.name for block in shown.blocks] == [f"encoder.layer.{layer}" for layer in range(SIZE.layers)]
    assert sum(block.mj[0] for block in shown.blocks) == pytest.approx(lines["paper_fp32"].network)
    assert "rows ran" in shown.seen


def test_an_old_result_has_no_card() -> None:
    run = finished("bert", None)
    assert run.energy_card is None
    assert (
        Result.model_validate(run.model_dump(mode="json", by_alias=True, exclude={"energy_card"})).energy_card is None
    )
    assert "energy_card/paper_fp32/network" not in _summary(run)
    assert estimates_of(run)[0].network > 0, "expected from its sizes"
