"""Claims: each holds on the paper's own numbers, and on results says held, failed or not run."""

from __future__ import annotations

import functools
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from canned import Canned, glue, result
from rich.console import Console

from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.report.claims.claims import AVERAGES, WIDTHS, Claim, Quantity, check_claim, evaluate, load_claims
from spikelm.report.claims.quantity_words import value_text
from spikelm.report.claims.show_claims import claims_dict, numbers_text, show_claims
from spikelm.report.query.selection import Results, Selection

CLAIMS = {claim.id: claim for claim in load_claims()}
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
UNPRINTED = {"rate-is-predictable"}  # the paper shows it in figure 5 alone


def test_numbers_of_a_claim_have_their_point() -> None:
    average = Quantity(system="bit", measure="avg")
    assert [value_text(average, value) for value in (71.0, 73.971, 0.021876, -2.0)] == [
        "71.0",
        "73.97",
        "0.02188",
        "-2.0",
    ]
    assert value_text(Quantity(system="bit", measure="fully"), 1.0) == "yes"


def test_there_are_enough_of_them_and_each_has_its_place() -> None:
    assert len(CLAIMS) == len(load_claims()) >= 20
    systems = {path.stem for path in (config_dir() / "system").glob("*.yaml")}
    for claim in CLAIMS.values():
        assert claim.section
        assert claim.statement.endswith(".")
        assert {quantity.system for quantity in claim.ours.values()} <= systems


@pytest.mark.parametrize("id", sorted(set(CLAIMS) - UNPRINTED))
def test_holds_on_the_papers_own_numbers(id: str) -> None:
    claim = CLAIMS[id]
    assert set(claim.paper) == set(claim.ours), "every quantity is printed"
    assert evaluate(claim.holds, claim.paper)


def test_numbers_of_the_paper_are_those_of_its_tables() -> None:
    from spikelm.report.tables.paper_table import load_table

    three = {row.system: row.paper for row in load_table(3).rows}
    seven = {row.system: row.paper for row in load_table(7).rows}
    for claim in CLAIMS.values():
        for name, quantity in claim.ours.items():
            if name not in claim.paper or quantity.table == 4:
                continue
            system, measure = quantity.system, quantity.measure
            known = [table[system][measure] for table in (three, seven) if measure in table.get(system, {})]
            if measure in ("avg", "energy_fp32") and (printed := [float(v) for v in known if v is not None]):
                assert claim.paper[name] in printed, (claim.id, name)


SINGLE_RUN = {
    id for id, claim in CLAIMS.items() if not {one.measure for one in claim.ours.values()} & {*AVERAGES, *WIDTHS}
}


@pytest.mark.parametrize("id", [*sorted(SINGLE_RUN), *(slow(id) for id in sorted(set(CLAIMS) - SINGLE_RUN))])
def test_can_be_checked_at_scale_mini(id: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = tmp_path_factory.getbasetemp()  # nothing is written to it
    verdict = check_claim(CLAIMS[id], Results(Selection(scale="mini", root=store)))
    assert verdict.reason == "", "its runs can be asked for"
    assert verdict.status == "not run"
    assert verdict.missing


def test_an_average_is_over_nine_and_a_claim_can_fail(tmp_path: Path) -> None:
    known = glue("spikelm_t4", 42, 60.0, 69.0) | glue("lif_bert", 42, 50.0, 50.0)
    verdict = check_claim(CLAIMS["beats-lif"], Canned(known, tmp_path))
    assert verdict.status == "held"
    assert verdict.numbers == pytest.approx({"spikelm": 61.0, "lif": 50.0})
    assert len(verdict.runs) == 16
    worse = glue("spikelm_t4", 42, 40.0, 40.0) | glue("lif_bert", 42, 50.0, 50.0)
    failed = check_claim(CLAIMS["beats-lif"], Canned(worse, tmp_path))
    assert failed.status == "failed"
    assert numbers_text(failed) == "spikelm 40 (76.5), lif 50 (54.9)"


def test_systems_are_compared_on_the_seeds_that_all_of_them_have(tmp_path: Path) -> None:
    known = glue("spikelm_t4", 1, 40.0, 40.0) | glue("spikelm_t4", 2, 60.0, 60.0) | glue("lif_bert", 1, 45.0, 45.0)
    verdict = check_claim(CLAIMS["beats-lif"], Canned(known, tmp_path, (1, 2)))
    assert verdict.numbers == pytest.approx({"spikelm": 40.0, "lif": 45.0}), "not 50, which is of another seed as well"
    assert verdict.status == "failed"
    assert len(verdict.runs) == 16
    assert len(verdict.missing) == 8


def test_a_missing_run_is_no_verdict_and_is_named(tmp_path: Path) -> None:
    known = glue("spikelm_t4", 42, 60.0, 69.0) | glue("lif_bert", 42, 50.0, 50.0)
    del known["lif_bert", "glue/rte", 42]
    verdict = check_claim(CLAIMS["beats-lif"], Canned(known, tmp_path))
    assert verdict.status == "not run"
    assert verdict.missing == ("spikelm-run system=lif_bert task=glue/rte scale=smoke source=embedded seed=42",)
    assert set(verdict.numbers) == {"spikelm"}


def test_measures_are_of_the_pretrained_run(tmp_path: Path) -> None:
    sites = ("qkv_in", "key_out", "attn_out_in", "ffn1_in", "ffn2_in")

    def rates(*values: float) -> dict[str, float]:
        return {f"encoder.layer.0.{site}": value for site, value in zip(sites, values, strict=True)}

    def pretrained(after: float) -> dict[str, Any]:
        # what query, key and value read counts three times; the key's own spikes do not count
        rate = {
            "mean": 0.3,
            "initial_per_site": rates(0.2, 0.9, 0.3, 0.3, 0.3),
            "per_site": rates(0.2, 0.1, after, 0.3, 0.3),
        }
        return result("pretrain", {"loss": 1.0}, firing_rate=rate)

    systems = ("spikelm_t4", "spikelm_k3", "spikelm_k4")
    known = {(system, "pretrain", 42): pretrained(0.54) for system in systems}
    verdict = check_claim(CLAIMS["rate-is-predictable"], Canned(known, tmp_path))
    assert verdict.numbers == pytest.approx(
        {f"before_k{k}": 25.0 for k in (2, 3, 4)} | {f"after_k{k}": 29.0 for k in (2, 3, 4)}
    )
    assert verdict.status == "held", "four points apart"
    known["spikelm_k3", "pretrain", 42] = pretrained(0.66)
    verdict = check_claim(CLAIMS["rate-is-predictable"], Canned(known, tmp_path))
    assert verdict.numbers["after_k3"] == pytest.approx(31.0)
    assert verdict.status == "failed", "six points apart for one of three"


def test_scaling_needs_every_width(tmp_path: Path) -> None:
    class Wide(Canned):
        def find(self, system: str, task: str, seed: int | None = None, extra: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
            found = super().find(system, task, seed, extra)
            width = int(extra[0].partition("=")[2])
            if system == "spikelm_t4" and width == self.missing:
                return found
            loss = 10.0 - width / 10 if system == "spikelm_t1" else self.flat
            return replace_result(found, result("pretrain", {"loss": loss}, parameters=width))

        missing, flat = 0, 5.0

    def replace_result(found, made):  # type: ignore[no-untyped-def]
        return found._replace(result=made)

    store = Wide({}, tmp_path)
    verdict = check_claim(CLAIMS["scaling-law"], store)
    assert verdict.numbers == {"t1": 1.0, "t4": 0.0}, "equal losses do not fall"
    assert verdict.status == "failed"
    store.missing = 32
    assert check_claim(CLAIMS["scaling-law"], store).status == "not run"


def test_what_a_claim_may_say_is_arithmetic_alone() -> None:
    assert evaluate("0.4 < a / b < 0.6 and max(a, 1) == 1", {"a": 1.0, "b": 2.0})
    assert not evaluate("abs(a - b) < 1", {"a": 1.0, "b": 2.0})
    for text in ("__import__('os')", "a.real > 0", "c > 0", "[a]", "a if a else b"):
        with pytest.raises(ConfigError, match="cannot say"):
            evaluate(text, {"a": 1.0, "b": 2.0})


def test_a_measure_that_is_not_there_is_named(tmp_path: Path) -> None:
    known = {("spikelm_t4", "pretrain", 42): result("pretrain", {"loss": 1.0})}
    odd = replace(CLAIMS["isometry"], ours={"r": Quantity("spikelm_t4", "warmth")})
    assert isinstance(odd, Claim)
    assert "warmth" in check_claim(odd, Canned(known, tmp_path)).reason


def test_json_has_all_of_it(tmp_path: Path) -> None:
    store = Canned({}, tmp_path)
    found = [check_claim(CLAIMS["isometry"], store)]
    told = json.loads(json.dumps(claims_dict(found, store.selection)))
    assert told["counts"] == {"held": 0, "failed": 0, "not run": 1}
    assert (told["scale"], told["source"]) == ("smoke", "embedded")
    assert told["claims"][0]["missing"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_is_no_wider_than_the_terminal(width: int, tmp_path: Path) -> None:
    store = Canned({}, tmp_path)
    console = Console(width=width, file=io.StringIO(), record=True)
    show_claims([check_claim(claim, store) for claim in load_claims()[:5]], store.selection, console)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[0] == "5 claims at scale=smoke, source=embedded, seed 42: 0 held, 0 failed, 5 not run"
    assert max(map(len, lines[1:])) in range(width - 2, width + 1), "all of it is used, and no more"


def test_claims_are_read_from_their_file_once() -> None:
    assert load_claims() is load_claims()
