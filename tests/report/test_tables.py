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
    with pytest.raises(ConfigError, match="tables that can: 3, 4, 5, 6, 7, 9"):
        load_table(8)


def test_a_few_tasks_have_a_mean_of_their_own_that_says_so(root: Path) -> None:
    options = [*OPTIONS, f"runs_dir={root}"]
    table = load_table(3).only(["glue/mnli", "rte"])
    assert table.tasks == ["glue/mnli", "glue/rte"]
    path = render_table(table, options, [1], root)
    assert path.name == "table3-smoke-embedded-mnli+rte.md"
    rows = [line.split("|") for line in path.read_text().splitlines() if line.startswith("| SpikeLM ")]
    assert [cell.strip() for cell in rows[1][4:]] == ["50.0 (77.1)", "59.0 (77.2)", "50.0 (69.0)", "53.0 (74.4)", ""]
    assert "Only mnli, rte: an average, the paper's too, is over these alone" in path.read_text()
    with pytest.raises(ConfigError, match="did you mean rte"):
        load_table(3).only(["glue/rt"])


def test_a_table_of_averages_only_does_not_compare_a_few_tasks_with_nine(root: Path) -> None:
    found = lines(render_table(load_table(7).only(["rte"]), [*OPTIONS, f"runs_dir={root}"], [1], root))
    assert found["k=2"][0] == "50.0 (–)"


def test_overrides_reach_the_runs_and_the_file_is_another(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spikelm.report.command import main

    asked = ["table", "7", "--scale", "smoke", "--seeds", "1", "--runs-dir", str(root)]
    assert main(asked) == 0
    assert "written to" in capsys.readouterr().out
    assert lines(root / "tables" / "table7-smoke-embedded.md")["k=2"][0] == "51.0 (76.5)"
    assert main([*asked, "finetune.lr=1e-4"]) == 0
    others = [path for path in (root / "tables").iterdir() if path.name != "table7-smoke-embedded.md"]
    assert len(others) == 1
    assert lines(others[0])["k=2"][0] == "(76.5)", "runs with other settings are others"
    assert "finetune.lr=1e-4" in others[0].read_text()


@pytest.mark.parametrize(("word", "says"), [("task=glue/rte", "--tasks"), ("--sede", "neither"), ("foo", "neither")])
def test_what_a_table_cannot_be_given_is_refused(word: str, says: str, tmp_path: Path) -> None:
    from spikelm.report.command import main

    with pytest.raises(ConfigError, match=says):
        main(["table", "7", "--runs-dir", str(tmp_path), word])


def test_local_files_are_those_of_the_runs_there_are(tmp_path: Path) -> None:
    from spikelm.report.runs import local_root

    with pytest.raises(ConfigError, match="no runs from local files at scale mini"):
        local_root(tmp_path, "mini")
    run = open_run(load_config(["scale=smoke", f"runs_dir={tmp_path}"]))
    run.start({}, {})
    known = {"scale": "mini", "config": {"source": {"name": "local", "root": "/data/glue"}}}
    run.finish({**dict.fromkeys(set(RESULT_FIELDS) - {"run_id", "status"}), **known})
    assert local_root(tmp_path, "mini") == "/data/glue"
    with pytest.raises(ConfigError):
        local_root(tmp_path, "paper")


def test_reproducing_hands_everything_to_one_sweep(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    from spikelm.report.command import main

    asked: list[list[str]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("spikelm.report.reproduce.subprocess.run", run)
    options = ["--scale", "smoke", "--tasks", "glue/rte,glue/cola", "--runs-dir", str(root), "finetune.lr=1e-4"]
    assert main(["reproduce", "7", *options]) == 0
    (command,) = asked
    assert "task=glue/cola,glue/rte" in command
    assert command[-3:] == ["scale=smoke", f"runs_dir={root}", "finetune.lr=1e-4"]
