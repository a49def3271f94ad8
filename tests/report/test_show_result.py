"""One result on a terminal: whole words, digits that count, and which rows it is of."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from made_up_result import made_up
from rich.console import Console

from spikelm.report.show_result import show_result

WIDTHS = (80, 120)


def shown(width: int = 120, **changes: Any) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    show_result(made_up(**changes), Path("somewhere"), console)
    return console.export_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_small_numbers_have_digits_and_bits_are_a_word(width: int) -> None:
    text = shown(
        width,
        energy_mj={"fp32": 0.0002981, "fp16": 0.00000012},
        energy_ann_mj={"fp32": 0.0241, "fp16": 0.0079},
        seconds=0.42,
    )
    assert "0.0002981 mJ" in text
    assert "0.02410 mJ ANN, 80.8x" in text
    assert "1.200e-07 mJ" in text
    assert "32, ternary" in text
    assert "0.42 s" in text
    assert "100 MB" in text
    assert max(map(len, text.splitlines())) <= width


def test_the_unit_of_a_score_is_told() -> None:
    text = shown(metrics={"rougeL": 61.0, "exact_match": 2.5, "entity_accuracy": 31.0, "exact_match_test": 3.0})
    for words in ("ROUGE-L, F1 %", "exact match, % ", "entity accuracy, % ", "exact match, %, test"):
        assert words in text


def test_rows_that_were_left_out_are_counted() -> None:
    source = {"name": "local", "rows": {"train": 96, "validation": 48}, "content_hash": "ab"}
    assert "rows: train 96, validation 48\n" in shown(source=source)
    cut = shown(source={**source, "available": {"train": 200}})
    assert "rows: train 96 of 200, validation 48\n" in cut
    assert "source local" in cut


@pytest.mark.parametrize("width", WIDTHS)
def test_the_modules_of_a_stack_are_named_once(width: int) -> None:
    stack = [
        f"model.{part}.layers.{layer}.fc{n}" for part in ("encoder", "decoder") for layer in (0, 1) for n in (1, 2)
    ]
    verdict = {"verdict": "none", "operations": "MACs", "spike_driven": False, "silent": []}
    text = " ".join(shown(width, spike_driven={**verdict, "real_valued": [*stack, "lm_head"]}).split())
    assert text.count("model.encoder") == text.count("model.decoder") == 1
    assert "…" not in text


def conversion(**changes: Any) -> dict[str, Any]:
    """One block with two neurons."""
    block = {"name": "encoder.layer.0", "cosine": 0.98765, "relative_error": 0.1234}
    sites = [
        {"site": "encoder.layer.0.qkv_in", "cosine": 0.9, "relative_error": 0.25, "saturated": 0.0},
        {"site": "encoder.layer.0.cross_value_out", "cosine": None, "relative_error": 0.75, "saturated": 0.5},
    ]
    record = {
        "batches": 8,
        "rows": 256,
        "rotation": "none",
        "rotation_additions": 0,
        "plain_metrics": {"accuracy": 62.5},
    }
    return {**record, "blocks": [block], "sites": sites, **changes}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_conversion_is_shown_block_by_block_with_the_score_before(width: int) -> None:
    rates = {"encoder.layer.0.qkv_in": 1.5, "encoder.layer.0.cross_value_out": 0.5}
    teacher = {"accuracy": 1.25}
    text = shown(width, conversion=conversion(), firing_rate={"mean": 1.0, "per_site": rates}, teacher_metrics=teacher)
    words = " ".join(text.split())
    assert "62.50 before" in words
    assert "1.25 teacher" not in words
    row = next(line for line in text.splitlines() if line.strip().startswith("encoder 0"))
    assert row.split() == ["encoder", "0", "0.9877", "12.3%", "50.0%", "75.0%", "cross_value_out", "25.0%", "1.00"]
    assert "256 rows in 8 batches set the amplitudes" in text
    assert "rotation" not in text


def test_a_rotation_and_what_became_of_stbif_are_told() -> None:
    settled = {"steps": 23, "settled": True, "spikes_per_value": 1.5, "levels_per_value": 1.25}
    record = conversion(rotation="hadamard", rotation_additions=3328, rows=0, batches=0)
    text = shown(conversion={**record, "settled": {**settled, "differing": 0, "difference": 1e-12}})
    assert "no data was needed to set amplitudes" in text
    assert "rotation: hadamard, 3,328 additions a token at run time, which the energy leaves out" in text
    assert "settled after 23 steps; equal to the quantised network within 1e-12; 1.50 spikes a value" in text
    exact = shown(conversion={**record, "settled": {**settled, "differing": 0, "difference": 0.0}})
    assert "equal to the quantised network to the last digit" in exact
    off = shown(conversion={**record, "settled": {**settled, "differing": 2, "difference": 0.25}})
    assert "settled after 23 steps; 2 values are on another level, the output differs by 0.25" in off
    never = {**settled, "settled": False, "differing": 2, "difference": 0.25}
    assert "not settled after 23 steps" in shown(conversion={**record, "settled": never})


def test_weights_alone_have_no_neurons_to_show() -> None:
    text = shown(conversion=conversion(sites=[]))
    row = next(line for line in text.splitlines() if line.strip().startswith("encoder 0"))
    assert row.split() == ["encoder", "0", "0.9877", "12.3%"]
    assert "saturated" not in text
