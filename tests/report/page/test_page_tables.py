"""Tables of the page: the best is marked, numbers over seeds have a deviation, a cell tells its runs and command."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from made_up import run_id, write
from made_up_tables import cell, write_table

from spikelm.catalog.metric_names import METRICS, lower_is_better
from spikelm.report.page.better import better
from spikelm.report.page.site import Site
from spikelm.report.query import rerun

COLUMNS = {"energy_fp32": "mJ fp32", "T": "T", "rte": "rte", "sst2": "sst2"}


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Class, tip and text of every cell of a made-up table."""
    monkeypatch.setattr(rerun.Commands, "command", lambda self, config: f"spikelm-run seed={config.seed}")
    write(tmp_path, 1)
    write(tmp_path, 2)
    runs = [run_id(1), run_id(2)]
    first = {"energy_fp32": cell(0.07, "0.0700"), "T": cell(1, "1"), "rte": cell(70.0, "70.0", runs[:1], best=True)}
    second = {"energy_fp32": cell(0.02, "0.0200", best=True), "T": cell(4, "4")}
    second["rte"] = cell(66.0, "66.0±1.4", runs, [65.0, 67.0])
    lines = [{"name": "BERT", "system": "bert", "cells": {**first, "sst2": cell(50.0, "50.0")}}]
    lines += [{"name": "SpikeLM", "system": "spikelm_t4", "cells": {**second, "sst2": cell(50.0, "50.0")}}]
    write_table(tmp_path, 3, lines, COLUMNS)
    Site(tmp_path).build()
    page = (tmp_path / "report" / "tables.html").read_text()
    assert page.count('title="lower is better"') == 2, "in the explanation and in the heading of the energy alone"
    found = re.findall(r'<td class="(n[^"]*)"([^>]*)>(.*?)</td>', page)
    return [(kind, html.unescape(about), re.sub(r"<[^>]+>", " ", text).strip()) for kind, about, text in found]


def test_the_best_of_a_column_is_marked(cells: list[tuple[str, str, str]]) -> None:
    marked = ["best" in kind for kind, _, _ in cells]
    assert marked == [False, False, True, False, *(True, False, False, False)], "as the table says"


def test_a_cell_tells_its_runs_and_of_a_single_one_the_command(cells: list[tuple[str, str, str]]) -> None:
    one, two = cells[2][1], cells[6][1]
    assert f"1 run\n{run_id(1)[:8]}  glue-rte/lif-mini-embedded-s1-{run_id(1)[:8]}\nspikelm-run seed=1" in one
    assert "2 runs\n" in two
    assert "by seed: 65, 67" in two
    assert "spikelm-run" not in two
    assert cells[6][2].startswith("66.0 ± 1.4"), "mean and deviation"


def test_several_footnotes_are_told_apart_and_equal_words_have_no_difference(tmp_path: Path) -> None:
    word = {"text": {"ours": "fully", "paper": "Fully", "difference": "same"}, "runs": [], "footnotes": [2, 3]}
    write_table(
        tmp_path, 1, [{"name": "SpikeLM", "system": "spikelm_t4", "cells": {"verdict": word}}], {"verdict": "x"}
    )
    Site(tmp_path).build()
    page = (tmp_path / "report" / "tables.html").read_text()
    assert "<sup>3,4</sup>" in page, "not 34"
    assert ">same<" not in page


def test_which_way_is_better() -> None:
    directions = {"avg": "higher", "mnli_m": "higher", "xsum_energy": "lower", "energy_fp16": "lower", "T": ""}
    directions |= {"loss": "lower", "mlm_loss": "lower", "act_bits": "", "firing": "", "rougeL": "higher"}
    assert {name: better(name) for name in directions} == directions
    for name, metric in METRICS.items():
        assert (better(name) == "lower") == metric.lower == lower_is_better(name), name
