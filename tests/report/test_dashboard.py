"""The W&B dashboard offline: its specification, and the report's run read back with W&B's own reader."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spikelm.errors import ConfigError
from spikelm.report.appearance import look_of_preset
from spikelm.report.page.entries import directories, read_record
from spikelm.report.wandb import (
    DELTAS,
    SECTIONS,
    Bars,
    Dashboard,
    Delta,
    Options,
    Scatter,
    build_dashboard,
    colours,
    deltas,
    report,
    workspace,
)
from spikelm.runs.experiment import _summary
from spikelm.runs.labels import labels

sys.path.insert(0, str(Path(__file__).parent / "page"))
from made_up import write

KEY = "5ec2e7" * 6 + "5ec2"  # looks like an API key


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    store = tmp_path / "runs"
    for number in (1, 2):
        write(store, number)
    for folder in ("tables", "figures"):
        (store / folder).mkdir()
    cells: dict[str, Any] = {
        "rte": {"ours": 60.0, "paper": 69.0, "difference": -9.0},
        "avg": {"ours": None, "paper": 76.5, "difference": None},
        "act_bits": {"ours": "ter", "paper": "Ter", "difference": None},
    }
    lines = [{"name": "SpikeLM", "cells": cells}]
    table = {"id": 3, "scale": "mini", "source": "embedded", "lines": lines}
    (store / "tables" / "table3-mini-embedded.json").write_text(json.dumps(table))
    (store / "tables" / "table4-mini-embedded.json").write_text("{")
    (store / "figures" / "fig4.svg").write_text("<svg/>")
    return store


def read_back(path: Path) -> list[dict[str, Any]]:
    """The records of an offline run, by `wandb leet inspect`."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_cells_with_a_number_of_ours_are_the_deltas(root: Path) -> None:
    assert deltas(root) == [
        Delta(3, "mini", "embedded", "SpikeLM", "rte", 60.0, 69.0, -9.0),
        Delta(3, "mini", "embedded", "SpikeLM", "act_bits", None, None, None),
    ]


def test_panels_are_made_of_what_runs_log(tmp_path: Path) -> None:
    run = write(tmp_path, 1)
    found = run.result()
    assert found is not None
    logged = set(_summary(found))
    panels = [panel for section in SECTIONS for panel in section.panels]
    used = {axis for panel in panels if isinstance(panel, Scatter) for axis in (panel.x, panel.y)}
    used |= {metric for panel in panels if isinstance(panel, Bars) for metric in panel.metrics}
    assert used == {"score", "energy_mj/fp32", "energy_of_ann", "firing_rate"}
    assert used <= logged
    assert set(Dashboard("mine").columns) - {"tags"} <= logged


def test_offline_the_report_is_a_run_that_holds_tables_figures_and_results(root: Path) -> None:
    console = Console(record=True, width=300, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    path = build_dashboard(root, root, Options(project="mine"), console)
    said = console.export_text()
    spec = json.loads(path.read_text())
    assert spec == json.loads(json.dumps(asdict(Dashboard("mine", colours=colours(root)))))
    (file,) = (root / "wandb-dashboard" / "wandb").glob("offline-run-*-report-*/run-*.wandb")
    assert f"wandb sync {file.parent}" in said
    assert f"wandb leet {file.parent}" in said
    records = read_back(file)
    (about,) = [record["run"] for record in records if record["type"] == "run"]
    assert (about["job_type"], about["project"], about["tags"]) == ("report", "mine", ["embedded", "mini"])
    logged = [record["artifact"] for record in records if record["type"] == "artifact"]
    kinds = {artifact["type"]: artifact["name"] for artifact in logged}
    assert {kind: kinds[kind] for kind in ("tables", "figures", "results")} == {
        "tables": "mine-tables",
        "figures": "mine-figures",
        "results": "mine-results",
    }
    (table,) = file.parent.glob(f"files/media/table/{DELTAS}_*.table.json")
    held = json.loads(table.read_text())
    assert held["columns"] == ["table", "scale", "source", "row", "column", "ours", "paper", "difference"]
    assert held["data"][0] == [3, "mini", "embedded", "SpikeLM", "rte", 60.0, 69.0, -9.0]
    for written in root.rglob("*"):
        assert not written.is_file() or KEY.encode() not in written.read_bytes(), written


def test_disabled_writes_the_specification_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    build_dashboard(root, root, Options(mode="online"), Console(quiet=True))
    assert [path.name for path in (root / "wandb-dashboard").iterdir()] == ["dashboard.json"]


def test_online_without_the_library_says_how_to_get_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE")
    for name in ("wandb_workspaces", "wandb_workspaces.workspaces", "wandb_workspaces.reports.v2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match="wandb-workspaces is not installed") as caught:
        build_dashboard(root, root, Options(mode="online"), Console(quiet=True))
    assert "spikelm[dashboard]" in caught.value.fix
    assert not (root / "wandb-dashboard" / "wandb").exists(), "nothing was started"


def test_the_specification_becomes_a_workspace_and_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb_workspaces")
    import wandb

    monkeypatch.setattr(wandb, "Api", lambda *args, **options: pytest.fail("asked the network"))
    dashboard = Dashboard("mine", "somebody")
    view, document = workspace(dashboard), report(dashboard)
    expected = {section.name: [panel.title for panel in section.panels] for section in SECTIONS}
    del expected["Paper deltas"]
    found = {section.name: [panel.title for panel in section.panels] for section in view.sections[:-1]}
    assert found == expected
    assert view.sections[-1].panels[0].table_name == DELTAS
    assert [metric.name for metric in (view.sections[0].panels[0].x, view.sections[0].panels[0].y)] == [
        "energy_mj/fp32",
        "score",
    ]
    headings = [block.text for block in document.blocks if type(block).__name__ == "H1"]
    assert headings == [section.name for section in SECTIONS]
    # What is sent is JSON made from these models; a report's set of runs is looked up when it is saved.
    assert "energy_mj/fp32" in view._to_model().model_dump_json(by_alias=True)
    grids = [block for block in document.blocks if type(block).__name__ == "PanelGrid"]
    sent = [panel._to_model().model_dump_json(by_alias=True) for grid in grids for panel in grid.panels]
    for name in ("energy_mj/fp32", "firing_rate", "train/loss", DELTAS):
        assert any(name in text for text in sent), name


def test_runs_and_their_groups_have_the_colours_of_their_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb_workspaces")
    import wandb
    from wandb_workspaces.reports.v2 import Metric, RunsetGroup, RunsetGroupKey
    from wandb_workspaces.workspaces import GroupPath, Workspace

    monkeypatch.setattr(wandb, "Api", lambda *args, **options: pytest.fail("asked the network"))
    reference = Path(__file__).parents[2] / "runs" / "reference" / "glue-rte"
    for directory in reference.glob("*-s42-*"):
        system = json.loads((directory / "result.json").read_text())["config"]["system"]["name"]
        if system in ("spikelm_t1", "bert_3l"):
            shutil.copytree(directory, tmp_path / "glue-rte" / directory.name)
    found = colours(tmp_path)
    assert len(found) == 2
    records = {id: read_record(tmp_path, directory, id).config for directory, id in directories(tmp_path)}
    for one in found:
        assert one.group == labels(records[one.run]).group, "what the run itself is grouped by"  # type: ignore[arg-type]
    rte = next(one for one in found if one.group == "table3 spikelm_t1")
    assert rte.colour == look_of_preset("spikelm_t1").colour
    dashboard = Dashboard("mine", "somebody", colours=found)
    view = workspace(dashboard)._to_model()
    sent = view.spec.section.custom_run_colors
    assert sent[rte.run] == rte.colour
    assert (
        Workspace._from_model(view).runset_settings.group_colors.items()
        >= {
            rte.group: rte.colour,
            GroupPath(rte.group, "glue/rte"): rte.colour,
        }.items()
    ), "as W&B's own client reads it back"
    grid = next(block for block in report(dashboard).blocks if type(block).__name__ == "PanelGrid")
    group = RunsetGroup("runs", (RunsetGroupKey(Metric("Group"), rte.group),))
    assert grid.custom_run_colors.items() >= {rte.run: rte.colour, group: rte.colour}.items()
