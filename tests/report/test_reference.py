"""Reference results: a store of result files that reads like the one it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canned import result
from made_up_result import ENVIRONMENT

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.report.query.selection import Results, Selection
from spikelm.report.reproduce import reference
from spikelm.report.reproduce.reference import renew
from spikelm.report.tables.paper_table import load_table
from spikelm.runs.experiment import open_run
from spikelm.store.store import Store


def finish(root: Path, overrides: list[str], pretrained: str | None = None) -> str:
    config = load_config([*overrides, "scale=smoke", f"runs_dir={root}"])
    run = open_run(config)
    with run.lock():
        run.start(config, ENVIRONMENT)
        metrics = {"accuracy": 61.0, "loss": 1.0, "mlm_loss": 1.0}
        more = {"run_id": run.id, "pretrained": pretrained, "config": config, "seconds": 1800.0}
        run.finish(result(config.task.name, metrics, **more))
    return run.id


@pytest.fixture
def selection(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Selection:
    monkeypatch.setattr(reference, "TABLES", (9,))
    monkeypatch.setattr(reference, "load_table", lambda id: load_table(id).only(["glue/rte"]))
    monkeypatch.setattr(reference, "FIGURES", ("fig6",))
    monkeypatch.setattr(reference, "check_claims", lambda results: [])
    return Selection("smoke", root=runs_dir)


def test_a_finished_run_and_what_it_was_made_from_are_kept_and_read_again(selection: Selection, tmp_path: Path) -> None:
    pretrained = finish(selection.root, ["system=lif_bert", "task=pretrain"])
    tuned = finish(selection.root, ["system=lif_bert", "task=glue/rte"], pretrained)
    index = renew(selection, tmp_path / "kept").read_text()
    assert "2 finished runs" in index
    assert "1.0 hours of runs, one after the other, 1 thread each" in index
    assert {run.id for run in Store(tmp_path / "kept").runs()} == {pretrained, tuned}
    there = Results(Selection("smoke", root=tmp_path / "kept")).find("lif_bert", "glue/rte").result
    assert there is not None
    assert there.system == "LIF-BERT", "its title is made anew; the store's record says SpikeLM"
    assert there.metrics == Store(selection.root).find(tuned).result().metrics  # type: ignore[union-attr]
    text = (tmp_path / "kept" / "tables" / "table9-smoke-embedded-rte.md").read_text()
    assert "[61.0](../glue-rte/" in text, "cells link to the kept results"


def test_nothing_kept_names_a_place_of_the_machine(selection: Selection, tmp_path: Path) -> None:
    finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    renew(selection, tmp_path / "kept")
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file() and path.suffix not in (".png", ".pdf")]
    assert any(path.name == "result.json" for path in files)
    assert not [path for path in files if str(tmp_path) in path.read_text() or str(selection.root) in path.read_text()]


def test_it_is_renewed_but_replaces_nothing_else(selection: Selection, tmp_path: Path) -> None:
    finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    kept = tmp_path / "kept"
    renew(selection, kept)
    stale = kept / "glue-rte" / "old" / "result.json"
    stale.parent.mkdir()
    stale.write_text(json.dumps({}))
    renew(selection, kept)
    assert not stale.exists()
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="something else"):
        renew(selection, other)
    assert (other / "chapter1.tex").exists()


def test_where_runs_are_missing_those_of_the_reference_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from spikelm.cli.report import main

    asked = [
        "table",
        "9",
        "--tasks",
        "glue/rte",
        "--scale",
        "smoke",
        "--source",
        "embedded",
        "--runs-dir",
        str(tmp_path),
    ]
    assert main(asked) == 0
    assert "come with the project" not in capsys.readouterr().out
    (tmp_path / "reference" / "tables").mkdir(parents=True)
    (tmp_path / "reference" / "tables" / "claims-smoke-embedded.json").touch()
    assert main(asked) == 0
    assert f"spikelm-report table 9 --runs-dir {tmp_path / 'reference'}" in capsys.readouterr().out
