"""spikelm-report as it is called: what writes the page and what does not."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from made_up import run_id, write

from spikelm.cli.report import main
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.report.page import serve as server
from spikelm.report.query import rerun


@pytest.fixture(autouse=True)
def no_composing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(overrides: object) -> None:
        raise SpikeLMError("not here")

    monkeypatch.setattr(rerun, "load_config", refuse)


def test_without_a_command_the_runs_are_listed_and_the_page_is_written(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(runs_dir, 1)
    index = runs_dir / "report" / "index.html"
    assert main(["runs"]) == 0
    assert not index.exists(), "the list alone"
    assert main([]) == 0
    assert index.is_file()
    said = capsys.readouterr().out
    assert said.count(run_id(1)[:8]) == 2
    assert f"page: {index} (1 run, " in said


def test_an_empty_store_is_left_alone(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "no runs in" in capsys.readouterr().out
    assert not runs_dir.exists()


def test_page_and_serve_take_the_store_and_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)
    to = tmp_path / "to"
    assert main(["page", "--runs-dir", str(tmp_path), "--to", str(to)]) == 0
    assert (to / "run" / f"{run_id(1)}.html").is_file()
    asked: list[object] = []
    monkeypatch.setattr(server, "serve", lambda *args: asked.extend(args))
    main(["serve", "--runs-dir", str(tmp_path), "--to", str(to), "--port", "0", "--every", "0.1"])
    assert asked == [tmp_path, to, 0, 0.5], "no faster than twice a second"
    with pytest.raises(ConfigError, match="--port many is not a whole number"):
        main(["serve", "--port", "many"])
    with pytest.raises(ConfigError, match="has no argument k=3"):
        main(["page", "k=3"])


def test_the_page_is_there_at_once_and_then_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 3, 4):
        write(tmp_path, number)
    clock = itertools.count(0, 4)  # seconds: the first build has time for two commands, the next for one each
    monkeypatch.setattr(rerun.time, "thread_time", lambda: next(clock))
    assert main(["page", "--runs-dir", str(tmp_path), "--to", str(tmp_path / "report")]) == 0
    said = capsys.readouterr().out
    assert "(4 runs" in said
    assert "working out the commands that make 2 of the runs" in said
    for page in (tmp_path / "report" / "run").iterdir():
        assert "next build" not in page.read_text()


def test_the_command_of_an_unknown_run_or_config_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(SpikeLMError, match="no run abcdef"):
        main(["command", "abcdef", "--runs-dir", str(tmp_path)])
    with pytest.raises(SpikeLMError, match="cannot be composed here"):
        main(["command", run_id(1)[:6], "--runs-dir", str(tmp_path)])
