"""spikelm-report wandb: the dashboard as a specification, and the report's files as a run with artifacts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from spikelm.report.page.entries import directories
from spikelm.report.wandb_online import OFFLINE, check_online, refused, save
from spikelm.runs.tracking import effective_mode
from spikelm.store.records import digest, write_json

FOLDER = "wandb-dashboard"
TITLE = "SpikeLM: ours beside the paper"
SAVED = "saved.json"  # where on W&B it was saved
DELTAS = "paper_deltas"  # the table of cells that a report's run logs
RESULT_FILES = 5000  # in one artifact, at most


@dataclass(frozen=True)
class Options:
    """Which project on W&B, and whether it is asked at all."""

    project: str = "spikelm"
    entity: str = ""
    mode: str = "offline"


def specification(options: Options) -> dict[str, Any]:
    """Sections of panels over the project's runs, in words of our own: kind, title, metrics."""
    sections = [
        {
            "name": "Score against energy",
            "panels": [
                {"kind": "scatter", "title": "score, mJ fp32", "x": "energy_mj/fp32", "y": "score", "log_x": True},
                {"kind": "scatter", "title": "score, share of the ANN's energy", "x": "energy_of_ann", "y": "score"},
                {"kind": "scatter", "title": "score, firing rate", "x": "firing_rate", "y": "score"},
            ],
        },
        {
            "name": "Firing rates",
            "panels": [
                {"kind": "bar", "title": "firing rate by system", "metrics": ["firing_rate"], "by": "group"},
                {"kind": "line", "title": "firing rate of each site", "regex": "^firing/.*", "x": "step"},
            ],
        },
        {
            "name": "Curves",
            "panels": [
                {"kind": "line", "title": "training loss", "y": ["train/loss"], "x": "step", "smooth": 0.6},
                {"kind": "line", "title": "dev scores", "regex": "^dev/.*", "x": "step"},
                {"kind": "line", "title": "learning rate", "y": ["train/lr"], "x": "step"},
            ],
        },
        {"name": "Paper deltas", "panels": [{"kind": "table", "title": "ours minus the paper's", "table": DELTAS}]},
    ]
    return {
        "title": TITLE,
        "project": options.project,
        "entity": options.entity,
        "group_by": ["group", "job_type"],
        "columns": ["tags", "score", "energy_mj/fp32", "energy_of_ann", "firing_rate", "spike_driven"],
        "sections": sections,
    }


def deltas(root: Path) -> list[dict[str, Any]]:
    """Every cell of every table on disk that has a number of ours: ours, the paper's, the difference."""
    found = []
    for path in sorted((root / "tables").glob("table*.json")):
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            where = {"table": raw["id"], "scale": raw["scale"], "source": raw["source"]}
            for line in raw["lines"]:
                for column, cell in line["cells"].items():
                    if cell["ours"] is not None:
                        cells = {key: _shown(cell[key]) for key in ("ours", "paper", "difference")}
                        found.append({**where, "row": line["name"], "column": column, **cells})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # the page says which table cannot be read
    return found


def _shown(value: Any) -> float | None:
    """Words (ter, fully) have no place among numbers: a W&B table has one type a column."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def artifacts(root: Path) -> dict[str, list[Path]]:
    """The files of each artifact: tables, figures and the result of every run."""
    results = [path for directory, _ in directories(root) if (path := directory / "result.json").is_file()]
    named = {
        "tables": [path for path in sorted((root / "tables").glob("*")) if path.is_file()],
        "figures": [path for path in sorted((root / "figures").glob("*")) if path.is_file()],
        "results": results[:RESULT_FILES],
    }
    return {name: paths for name, paths in named.items() if paths}


def build_dashboard(root: Path, options: Options, console: Console) -> Path:
    """Write the specification, log the artifacts, and save workspace and report where W&B can be reached."""
    mode = effective_mode(options.mode, console.print)  # type: ignore[arg-type]
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "dashboard.json"
    write_json(path, specification(options))
    console.print(f"specification of the dashboard: {path}", soft_wrap=True, highlight=False)
    if mode == "disabled":
        return path
    if mode == "online":
        check_online()  # before anything is sent
    run = log_report(root, folder, options, mode)
    console.print(f"tables, figures and results as artifacts: {run}", soft_wrap=True, highlight=False)
    if mode == "online":
        links = save(specification(options), _saved(folder / SAVED))
        write_json(folder / SAVED, links)
        for what in ("workspace", "report"):
            console.print(f"{what}: {links[what]}", soft_wrap=True, highlight=False)
        return path
    console.print("Offline: nothing was sent. To upload the runs and this report:", highlight=False)
    for line in (
        f"wandb sync {root}/*/*/wandb/offline-run-*",
        f"wandb sync {run}",
        "spikelm-report wandb --mode online",
    ):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    console.print("To look at a run here, in the terminal:", highlight=False)
    console.print(f"  wandb leet {run}", soft_wrap=True, highlight=False)
    return path


def _saved(path: Path) -> dict[str, str]:
    """Where the dashboard was saved the last time; nothing where nobody knows."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def log_report(root: Path, folder: Path, options: Options, mode: str) -> Path:
    """One W&B run of the report itself: the table of deltas, and an artifact each of tables, figures and results."""
    import wandb

    files, rows = artifacts(root), deltas(root)
    stamp = [[str(path.relative_to(root)), path.stat().st_mtime_ns] for paths in files.values() for path in paths]
    with refused("W&B refused the report", OFFLINE if mode == "online" else "unset the variables WANDB_*"):
        settings = wandb.Settings(
            console="off", silent=True, disable_code=True, disable_git=True, x_disable_machine_info=True, host=""
        )  # host and user names are nobody's business
        run = wandb.init(
            mode=mode, project=options.project, entity=options.entity or None, id=f"report-{digest(stamp)[:12]}",  # type: ignore[arg-type]
            name="report", group="report", job_type="report", tags=_tags(rows), dir=str(folder), settings=settings,
            resume="allow", reinit="create_new",
        )  # fmt: skip
        try:
            _log(run, files, rows, root)
            run.finish()
        except Exception:
            with contextlib.suppress(Exception):  # W&B's own process may be what failed
                run.finish(exit_code=1)
            raise
        return Path(run.dir).parent


def _log(run: Any, files: Mapping[str, Sequence[Path]], rows: Sequence[Mapping[str, Any]], root: Path) -> None:
    import wandb

    if rows:
        run.log({DELTAS: wandb.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])})
    for name, paths in files.items():
        artifact = wandb.Artifact(f"{run.project}-{name}", type=name)
        for path in paths:
            artifact.add_file(str(path), name=str(path.relative_to(root)))
        run.log_artifact(artifact)


def _tags(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({str(row[key])[:64] for row in rows for key in ("scale", "source")})
