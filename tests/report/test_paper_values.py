"""Every number of conf/table against the paper's tables as they were transcribed, digit by digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from spikelm.report.tables.paper_table import load_table

PRINTED = Path(__file__).resolve().parents[3] / "shared" / "paper" / "tables.yaml"
pytestmark = pytest.mark.skipif(not PRINTED.is_file(), reason="the transcribed tables are not here")
#: our column -> the transcription's, where it is another
COLUMNS = {
    **{"energy_fp32": "energy_mJ", "T": "time_steps", "levels": "spike_levels"},
    **{"xsum_energy": "xsum_energy_mJ"},
}
#: tables printed with a column a system: our column -> the printed row
TURNED: dict[int, dict[str, str]] = {
    1: dict(zip(("discrimination", "generation", "verdict", "operations"),
                ("Discrimination", "Generation", "Spike-Driven", "Matrix Mul."), strict=True)),
    2: dict(zip(("mnli_m", "mnli_mm", "mrpc", "sst2", "rte", "stsb", "xsum_rL", "cnndm_rL", "wmt16_bleu", "avg"),
                ("MNLI-m", "MNLI-mm", "MRPC", "STS-2", "RTE", "STS-B", "XSUM", "CNN-DM", "WMT16", "Average"),
                strict=True)),
    5: {"T": "time_steps", "energy_fp16": "fp16_mJ", "energy_fp32": "fp32_mJ"},
    7: {"avg": "glue_avg", "energy_fp32": "energy_mJ"},
}  # fmt: skip
OURS_ALONE = ("firing",)  # the paper has no such column


def printed(id: int) -> dict[str, Any]:
    """A table with every value as text, as it stands in the file."""
    tables = yaml.load(PRINTED.read_text(), yaml.BaseLoader)["tables"]
    return next(table for table in tables if table["id"] == str(id))


def text(value: object) -> str:
    return "null" if value is None else str(value)


@pytest.mark.parametrize("id", range(1, 10))
def test_agrees_digit_by_digit(id: int) -> None:
    ours, theirs = load_table(id), printed(id)
    columns = [column.name for column in ours.columns if column.name not in OURS_ALONE]
    if id in TURNED:
        rows = {row["name"]: row["values"] for row in theirs["rows"]}
        assert set(rows) == set(TURNED[id].values()), "every printed row is here"
        expected = [[rows[TURNED[id][column]][n] for column in columns] for n in range(len(theirs["columns"]))]
    else:
        names = {"avg": "glue_avg"} if id == 6 else {}
        there = [names.get(column, COLUMNS.get(column, column)) for column in columns]
        assert there == theirs["columns"]
        expected = [row["values"] for row in theirs["rows"]]
    assert [[text(row.paper[column]) for column in columns] for row in ours.rows] == expected


@pytest.mark.parametrize("id", [3, 4, 6, 8, 9])
def test_rows_have_their_printed_names(id: int) -> None:
    names = [row["system"].lower() for row in printed(id)["rows"]]
    assert [row.name.lower() for row in load_table(id).rows] == names
