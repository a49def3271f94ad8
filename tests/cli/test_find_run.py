"""The run that a command line names: one, or an error that lists the candidates; results without weights say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from made_up_result import ENVIRONMENT, made_up

from spikelm.cli.audit_command import audit_main
from spikelm.cli.export import export_main
from spikelm.cli.find_run import find_run
from spikelm.cli.report import main as report_main
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError, ConfigError, SpikeLMError
from spikelm.runs.experiment import open_run
from spikelm.runs.identity import id_of
from spikelm.store.checksums import file_sums
from spikelm.store.store import Run, Store

FIRST, SECOND = "5aaa000000000000", "5bbb000000000000"
WORDS = ["task=glue/rte", "scale=smoke", "neuron=bispike", "T=2"]


def finished(root: Path, id: str, label: str) -> Run:
    run = Store(root).open(id, label, "glue/rte")
    config = load_config([*WORDS, "seed=7"])
    run.start(config, ENVIRONMENT)
    run.finish(made_up(run_id=id, config=config, task="glue/rte", seed=7))
    return run


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Run]:
    return finished(tmp_path, FIRST, "one"), finished(tmp_path, SECOND, "other")


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "audit": audit_main,
    "export": export_main,
    "report run": lambda words: report_main(["run", *words]),
    "report command": lambda words: report_main(["command", *words]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_digits_that_fit_several_runs_are_refused_with_the_candidates(
    command: str, two: tuple[Run, Run], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        COMMANDS[command](["5", "--runs-dir", str(tmp_path)])
    assert caught.value.exit_code == 2
    assert caught.value.what.startswith(f"5 fits 2 runs in {tmp_path}")
    for run in two:
        (line,) = (line for line in caught.value.what.splitlines() if run.id in line)
        assert "glue/rte" in line
        assert "seed 7" in line
        assert str(run.directory) in line


@pytest.mark.parametrize("command", ["report run", "report command"])
def test_a_command_says_which_run_it_took(
    command: str, two: tuple[Run, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert COMMANDS[command](["5b", "--runs-dir", str(tmp_path)]) == 0
    said = capsys.readouterr()
    told, other = (said.err, said.out) if command == "report command" else (said.out, said.err)
    assert f"run {SECOND}: glue/rte" in told
    assert str(two[1].directory) in told
    assert FIRST not in told + other
    if command == "report command":
        assert other.startswith("spikelm-run task=glue/rte"), "which is all that a pipe gets"


def test_a_run_is_found_by_its_folder_and_by_nothing_less(two: tuple[Run, Run], tmp_path: Path) -> None:
    first = two[0]
    for name in (str(first.directory), f"{first.directory}/", f"glue-rte/{first.directory.name}", first.directory.name):
        assert find_run(name, tmp_path).run.id == FIRST, name
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    assert find_run(str(first.directory), elsewhere).run.id == FIRST, "a folder says where its store is"
    for name in ("", "-", "one-", "one-5", str(tmp_path), "6", f"one-{SECOND[:8]}"):
        with pytest.raises(ConfigError, match="no run") as caught:
            find_run(name, tmp_path)
        assert caught.value.exit_code == 2, "as the manuals of the commands say"


@pytest.mark.parametrize("command", ["audit", "export", "report run"])
def test_a_run_that_is_not_finished_is_named_with_the_command_that_goes_on(command: str, tmp_path: Path) -> None:
    run = Store(tmp_path).open(FIRST, "one", "glue/rte")
    run.start(load_config(WORDS), ENVIRONMENT)
    with pytest.raises(SpikeLMError) as caught:
        COMMANDS[command](["5", "--runs-dir", str(tmp_path)])
    assert caught.value.exit_code == 1
    assert caught.value.what.startswith(f"run {FIRST}: glue/rte, BERT with bispike T=2 k=2, seed 42, ")
    assert caught.value.what.endswith(f"in {run.directory} is not finished")
    words = caught.value.fix.partition("it goes on where it stopped: spikelm-run ")[2].split()
    assert id_of(load_config(words)) == id_of(load_config(WORDS))


@pytest.mark.parametrize("command", ["audit", "export"])
def test_a_result_without_weights_gives_the_command_that_makes_them(
    command: str, runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after cp -rn runs/reference/. runs/"""
    config: Config = load_config(WORDS)
    run = open_run(config)
    run.start(config, ENVIRONMENT)
    run.model.mkdir()
    (run.model / "config.json").write_text("{}")
    sums = file_sums(run.directory, [run.model])
    run.finish(made_up(run_id=run.id, config=config, task="glue/rte", files=sums))
    (run.model / "config.json").unlink()
    with pytest.raises(CheckpointError) as caught:
        COMMANDS[command]([run.id[:6]])
    assert "result only: its weights are not there" in caught.value.what
    assert "Errno" not in str(caught.value)
    _, _, line = caught.value.fix.partition("make the run again: spikelm-run ")
    *words, force = line.split()
    assert force == "force=true", "it would come from the store otherwise"
    assert open_run(load_config(words)).id == run.id
    assert f"run {run.id}: glue/rte" in capsys.readouterr().out
