"""Tables from results on disk: ours beside the paper's, mean over seeds, missing cells empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.compose import load_config
from spikelm.errors import ConfigError
from spikelm.experiment import open_run
from spikelm.records import RESULT_FIELDS
from spikelm.report.render import render_table
from spikelm.report.tables import load_table

OPTIONS = ["scale=smoke", "source=embedded"]


def write(root: Path, system: str, task: str, metrics: dict[str, float], energy: float, seed: int = 42) -> None:
    """A finished run with made-up numbers, as the store would hold it."""
    config = load_config([f"system={system}", f"task={task}", f"seed={seed}", *OPTIONS, f"runs_dir={root}"])
    run = open_run(config)
    run.start({}, {})
    rate = {"mean": 0.25, "per_site": {}}
    known = {"metrics": metrics, "energy_mj": {"fp32": energy, "fp16": energy / 2}, "firing_rate": rate}
    known |= {"source": {"name": "embedded", "rows": {}, "content_hash": ""}, "config": {"T": config.T}}
    run.finish({**dict.fromkeys(set(RESULT_FIELDS) - {"run_id", "status"}), **known})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    names = {"cola": "matthews", "stsb": "spearman", "mrpc": "f1", "qqp": "f1"}
    for seed, shift in ((1, 0.0), (2, 2.0)):
        for task in ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"):
            metrics = {names.get(task, "accuracy"): 50.0 + shift}
            if task == "mnli":
                metrics["accuracy_mm"] = 59.0 + shift
            write(tmp_path, "spikelm_t4", f"glue/{task}", metrics, 1.0, seed)
    write(tmp_path, "spikelm_t4", "pretrain", {"loss": 1.0}, 0.5)
    return tmp_path


def lines(path: Path) -> dict[str, list[str]]:
    rows = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in ([c.strip() for c in row.strip("|").split("|")] for row in rows)}


def test_mean_and_deviation_over_seeds_beside_the_paper(root: Path) -> None:
    options = [*OPTIONS, f"runs_dir={root}"]
    found = lines(render_table(load_table(7), options, [1, 2], root))
    # nine numbers: eight of 50 (or 52) and one of 59 (or 61)
    assert found["k=2"] == ["52.0±1.4 (76.5)", "0.5000 (13.7)", "25.0 (–)"]
    assert found["k=3"] == ["(75.1)", "(10.4)", "(–)"], "what was not run is empty, never zero"


def test_an_incomplete_row_has_no_average(root: Path) -> None:
    options = [*OPTIONS, f"runs_dir={root}"]
    found = lines(render_table(load_table(7), options, [3], root))
    assert found["k=2"][0] == "(76.5)"


def test_a_table_that_cannot_be_made_says_which_can() -> None:
    with pytest.raises(ConfigError, match="tables that can: 3, 5, 6, 7, 9"):
        load_table(8)
