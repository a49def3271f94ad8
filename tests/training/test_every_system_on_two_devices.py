"""Every system of every table trains on two ranks at the smallest scale, with all the runs that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.runs.experiment import run_experiment

CONF = Path(__file__).resolve().parents[2] / "conf"
SYSTEMS = sorted(path.stem for path in (CONF / "system").glob("*.yaml"))
SUMMARISERS = ("bertsumabs", "gpt2", "lif_bart_t1", "ptgen")  # which no task of GLUE knows
#: systems that the tables of texts have beside their rows of GLUE
BOTH = ("bert", "spikelm_t1", "spikelm_t4", "lif_bert")


def tasks_of(system: str) -> list[str]:
    texts = ["sum/xsum", "mt/wmt16_enro"]
    if system == "spikegpt":
        return ["pretrain"]
    if system in SUMMARISERS:
        return texts[:1] if system != "lif_bart_t1" else texts
    return ["glue/rte", *(texts if system in BOTH else [])]


CASES = [(system, task) for system in SYSTEMS for task in tasks_of(system)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all of them: a run that several need is made once."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
@pytest.mark.parametrize(("system", "task"), CASES, ids=[f"{system}-{task}" for system, task in CASES])
def test_two_ranks(system: str, task: str, store: Path) -> None:
    words = ["scale=smoke", f"system={system}", f"task={task}", "trainer.accelerator=cpu", "trainer.devices=2"]
    finished = run_experiment(load_config([*words, f"runs_dir={store}"]), Console(quiet=True))
    assert finished.result.trained_on is not None
    assert finished.result.trained_on.devices == 2
    assert finished.result.metrics


def test_no_system_of_a_table_is_left_out() -> None:
    rows = [row for path in (CONF / "table").glob("*.yaml") for row in yaml.safe_load(path.read_text())["rows"]]
    named = {row["system"] for row in rows if row.get("system")}
    assert named, "tables name their systems"
    assert named <= set(SYSTEMS)
