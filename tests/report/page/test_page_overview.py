"""The first page: its headline against numbers worked out by hand, the claims as a bar, what is running."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from made_up import run_id, write
from made_up_tables import score_and_energy, write_claims

from spikelm.report.appearance import look_of
from spikelm.report.page.site import Site


def built(root: Path, name: str = "index.html") -> str:
    Site(root, seconds=0.0).build()
    return (root / "report" / name).read_text()


def charts_of(page: str) -> list[dict[str, Any]]:
    found = re.search(r"data-charts='([^']*)'", page)
    assert found
    return json.loads(html.unescape(found[1]))


def test_the_headline_is_of_the_table_with_the_most_systems(tmp_path: Path) -> None:
    write(tmp_path, 1)
    score_and_energy(tmp_path, 7, {"k=2": ("spikelm_t4", 75.8, 0.02), "k=3": ("spikelm_k3", 68.4, 0.01)})
    filled = {"BERT": ("bert", 78.0, 0.08), "SpikeLM": ("spikelm_t4", 75.5, 0.02), "LIF": ("lif_bert", 46.0, 0.01)}
    score_and_energy(tmp_path, 3, {**filled, "PSN": ("psn_bert", None, 0.007), "Q2": ("q2bert", 77.0, None)})
    page = built(tmp_path)
    first, second = charts_of(page)
    assert first["title"] == "Table 3: GLUE dev set"
    assert [point["label"] for point in first["points"]] == ["BERT", "SpikeLM", "LIF"], "what lacks a number is no mark"
    assert second["title"] == "Table 7: GLUE dev set"
    said = "BERT has the best score: 78.0 at 0.0800 mJ. SpikeLM comes to 75.5 at 0.0200 mJ: 2.5 points less, for 4.0"
    assert first["headline"] == f"{said} times less energy."
    assert first["headline"] in html.unescape(page)
    assert "lower is better" in first["x_title"]
    assert "higher is better" in first["y_title"]


def test_a_loss_is_better_when_it_is_lower(tmp_path: Path) -> None:
    for number, (neuron, system, loss) in enumerate([("ann", "BERT", 3.0), ("lif", "LIF-BERT", 4.0)]):
        write(tmp_path, number, task="pretrain", neuron=neuron, system=system, metrics={"loss": loss})
    (chart,) = charts_of(built(tmp_path))
    assert chart["title"] == "pretrain"
    assert chart["y_title"] == "loss (lower is better)"
    assert chart["headline"].startswith("BERT has the best score: 3.0")
    assert "1.0 points more, for" in chart["headline"]
    assert '<small>loss<abbr class="better" title="lower is better">' in built(tmp_path, "runs.html")


def test_a_system_has_the_same_look_in_every_chart_and_list(tmp_path: Path) -> None:
    write(tmp_path, 1, system="LIF-BERT", score=50.0)
    write(tmp_path, 2, neuron="ann", system="BERT", score=70.0)
    score_and_energy(tmp_path, 3, {"BERT_base": ("bert", 78.0, 0.08), "LIF": ("lif_bert", 46.0, 0.02)})
    page = built(tmp_path)
    table, task = charts_of(page)
    look = look_of("LIF-BERT", 4)
    expected = {"light": look.colour, "dark": look.dark_colour, "symbol": look.symbol}
    of_table = {point["label"]: point["look"] for point in table["points"]}
    of_task = {point["label"]: point["look"] for point in task["points"]}
    assert of_table["LIF"] == of_task["LIF-BERT"] == expected
    assert of_table["BERT_base".replace("_", " ")] == of_task["BERT"]
    data = (tmp_path / "report" / "data" / f"{run_id(1)}.js").read_text()
    assert json.loads(data.removeprefix("spikelm.take(").rstrip().removesuffix(");"))["look"] == expected
    for name in ("runs.html", "tables.html"):
        text = (tmp_path / "report" / name).read_text()
        assert f'class="look m-{look.symbol}" style="--light:{look.colour};--dark:{look.dark_colour}"' in text


def test_claims_are_a_bar_in_words_and_failed_ones_come_first(tmp_path: Path) -> None:
    write(tmp_path, 1)
    held = [{"id": "x", "statement": f"statement {n}", "status": "held"} for n in range(3)]
    failed = {"id": "beats-lif", "statement": "SpikeLM beats LIF", "status": "failed"}
    failed |= {"numbers": {"spikelm": 40.0, "lif": 46.03}, "paper": {"spikelm": 76.5, "lif": 54.9}}
    truth = {"id": "spikegpt-partly", "statement": "SpikeGPT is partly", "status": "held"}
    truth |= {"numbers": {"spikegpt": 0.0, "spikelm": 1.0}, "paper": {"spikegpt": 0, "spikelm": 1}}
    waiting = {"id": "x", "statement": "not yet", "status": "not run", "missing": ["spikelm-run"]}
    write_claims(tmp_path, *held, truth, waiting, failed)
    page = built(tmp_path)
    assert 'aria-label="4 held, 1 failed, 1 not run"' in page
    assert re.findall(r'class="part [a-z-]+" style="flex-grow:(\d)">([^<]*)<', page) == [
        ("4", "4 held"),
        ("1", "1 failed"),
        ("1", "1 not run"),
    ]
    claims = (tmp_path / "report" / "claims.html").read_text()
    assert re.findall(r'<article class="claim ([a-z-]+)">', claims) == ["failed", "not-run", *["held"] * 4]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", claims))
    assert "LIF-BERT, T=4: average score lif 46.03 54.9" in text, "a quantity in words"
    assert "SpikeGPT, T=1, pretrain: fully spike-driven spikegpt no no" in text, "yes or no, not 1 or 0"


def test_every_quantity_of_the_claims_has_words() -> None:
    from spikelm.report.claims.claims import load_claims
    from spikelm.report.claims.quantity_words import MEASURES, quantity_words

    words = {claim.id: [quantity_words(quantity) for quantity in claim.ours.values()] for claim in load_claims()}
    assert words["xsum-close-to-bart"][0] == "BART, sum/xsum: ROUGE-L, F1 %, test", "of a text task it is not BERT"
    for claim in load_claims():
        assert not [text for text in words[claim.id] if "$" in text], claim.id
        for quantity in claim.ours.values():
            assert not quantity.measure or quantity.measure in MEASURES, claim.id
            assert "_" not in quantity_words(quantity).replace("BERT_", "").replace("SpikeLM_", "").replace(
                quantity.task, ""
            ), asdict(quantity)
