"""The dashboard online: W&B's own client sends it to a server on loopback, which shows what arrived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "page"))
from made_up import write
from wandb_server import WandbServer

pytest.importorskip("wandb_workspaces")
KEY = "5ec2e7" * 6 + "5ec2"  # looks like an API key


@pytest.fixture
def server() -> Iterator[WandbServer]:
    made = WandbServer()
    yield made
    made.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = tmp_path / "runs"
    write(store, 1)
    (store / "tables").mkdir()
    cells = {"rte": {"ours": 60.0, "paper": 69.0, "difference": -9.0}}
    table = {"id": 3, "scale": "mini", "source": "embedded", "lines": [{"name": "SpikeLM", "cells": cells}]}
    (store / "tables" / "table3-mini-embedded.json").write_text(json.dumps(table))
    return store


def dashboard(root: Path, url: str, **more: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    known |= {
        "SPIKELM_RUNS": str(root),
        "HOME": str(root.parent),
        "WANDB_BASE_URL": url,
        "WANDB_API_KEY": KEY,
        "WANDB_ERROR_REPORTING": "false",
    }
    command = [sys.executable, "-c", "from spikelm.cli.main import report; report()", "wandb", "--mode", "online"]
    return subprocess.run(command, env=known | more, capture_output=True, text=True, timeout=120)


def panels(found: Any) -> Iterator[dict[str, Any]]:
    """Every panel in a specification, wherever it is."""
    if isinstance(found, dict):
        if "viewType" in found:
            yield found
        found = list(found.values())
    for inner in found if isinstance(found, list) else []:
        yield from panels(inner)


def test_a_report_with_artifacts_a_workspace_and_a_document_arrive_and_are_renewed_by_the_next_call(
    root: Path, server: WandbServer
) -> None:
    done = dashboard(root, server.url)
    assert done.returncode == 0, done.stderr
    (run,) = server.runs.values()
    assert (run["groupName"], run["displayName"]) == ("report", "report")
    assert sorted(run["tags"]) == ["embedded", "mini"]
    assert {"spikelm-tables", "spikelm-results"} <= set(server.committed)
    assert json.loads(server.files["tables/table3-mini-embedded.json"])["id"] == 3
    assert any(name.endswith("result.json") for name in server.files)

    kinds = {view["type"]: json.loads(view["spec"]) for view in server.views.values()}
    assert set(kinds) == {"project-view", "runs"}, "a workspace and a report"
    for specification in kinds.values():
        found = [panel["config"] for panel in panels(specification)]
        assert len(found) == 9
        (bars,) = [panel for panel in found if panel.get("metrics") == ["summary_metrics.firing_rate"]]
        assert bars["groupBy"] == "group", "the runs' group, not a setting of that name"
        assert ("summary:energy_mj/fp32", "summary:score") in {(one.get("xAxis"), one.get("yAxis")) for one in found}
    (runs,) = kinds["project-view"]["section"]["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["group", "jobType"]
    assert {"summary:score", "summary:energy_mj/fp32"} <= set(runs["runFeed"]["columnPinned"])

    links = json.loads((root / "report" / "wandb-dashboard" / "saved.json").read_text())
    assert all(links[what] in done.stdout for what in ("workspace", "report"))
    assert dashboard(root, server.url).returncode == 0
    assert len(server.views) == 2, "no second copy"
    server.views.clear()
    assert dashboard(root, server.url).returncode == 0
    assert len(server.views) == 2, "what was deleted is made anew"
    for written in root.rglob("*"):
        assert not written.is_file() or KEY.encode() not in written.read_bytes(), written


@pytest.mark.parametrize(("variable", "value"), [("WANDB_MODE", "sometimes"), ("WANDB_API_KEY", "short")])
def test_an_environment_that_wandb_cannot_read_is_one_line(
    root: Path, server: WandbServer, variable: str, value: str
) -> None:
    done = dashboard(root, server.url, **{variable: value})
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ") or "fix:" in done.stderr
    assert not server.views


def test_a_server_that_is_gone_is_one_line(root: Path, server: WandbServer) -> None:
    server.stop()
    done = dashboard(root, server.url, WANDB_INIT_TIMEOUT="5", WANDB_HTTP_TIMEOUT="2")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr
