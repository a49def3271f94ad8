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
