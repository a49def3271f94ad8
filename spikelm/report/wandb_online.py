"""The dashboard's specification as a workspace and a report of wandb-workspaces, saved on W&B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spikelm.errors import ConfigError, SpikeLMError

OFFLINE = "spikelm-report wandb --mode offline"


@contextmanager
def refused(what: str, fix: str, kind: type[SpikeLMError] = SpikeLMError) -> Iterator[None]:
    """Whatever W&B's library raises inside is one clear line."""
    try:
        yield
    except SpikeLMError:
        raise
    except Exception as error:
        raise kind(f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", fix) from error


def libraries() -> tuple[Any, Any]:
    """wandb_workspaces' workspaces and reports, or how to get them."""
    try:
        import wandb_workspaces.reports.v2 as reports
        import wandb_workspaces.workspaces as workspaces
    except ImportError:
        raise ConfigError("wandb-workspaces is not installed", "pip install 'spikelm[dashboard]'") from None
    return workspaces, reports


def panel(reports: Any, spec: Mapping[str, Any]) -> Any:
    """One panel of the specification."""
    kind, title = spec["kind"], spec["title"]
    if kind == "scatter":
        x, y = (reports.SummaryMetric(spec[axis]) for axis in ("x", "y"))
        return reports.ScatterPlot(title=title, x=x, y=y, log_x=bool(spec.get("log_x")))
    if kind == "bar":
        metrics = [reports.SummaryMetric(name) for name in spec["metrics"]]
        return reports.BarPlot(title=title, metrics=metrics, orientation="h", groupby=_key(spec["by"]))
    if kind == "table":
        return reports.WeavePanelSummaryTable(table_name=spec["table"])
    if kind == "line":
        found = {"y": spec["y"]} if "y" in spec else {"metric_regex": spec["regex"]}
        smooth = {"smoothing_factor": spec["smooth"]} if "smooth" in spec else {}
        return reports.LinePlot(title=title, x=spec["x"], **found, **smooth)
    raise ConfigError(f"a dashboard has no panel of kind {kind}")


def workspace(spec: Mapping[str, Any]) -> Any:
    """The saved view: every section open, runs grouped by table and system."""
    workspaces, reports = libraries()
    sections = [
        workspaces.Section(
            name=section["name"], panels=[panel(reports, one) for one in section["panels"]], is_open=True
        )
        for section in spec["sections"]
    ]
    grouped = workspaces.RunsetSettings(
        groupby=[workspaces.Metric(_key(name)) for name in spec["group_by"]],
        pinned_columns=["tags:__ALL__" if name == "tags" else f"summary:{name}" for name in spec["columns"]],
    )
    return workspaces.Workspace(
        entity=spec["entity"],
        project=spec["project"],
        name=spec["title"],
        sections=sections,
        runset_settings=grouped,
    )


def report(spec: Mapping[str, Any]) -> Any:
    """The same panels as a document, a heading a section."""
    _, reports = libraries()
    blocks: list[Any] = [reports.TableOfContents()]
    for section in spec["sections"]:
        runs = reports.Runset(entity=spec["entity"], project=spec["project"], name="runs", groupby=["Group"])
        panels = [panel(reports, one) for one in section["panels"]]
        blocks += [reports.H1(text=section["name"]), reports.PanelGrid(runsets=[runs], panels=panels)]
    about = "Scores, firing rates and energies of the runs of this project beside the paper's tables."
    return reports.Report(
        project=spec["project"], entity=spec["entity"], title=spec["title"], description=about, blocks=blocks
    )


def check_online() -> None:
    """Refuse what cannot end well: no library, or nobody logged in; a prompt would wait for a key for ever."""
    import wandb

    libraries()
    with refused("W&B cannot be used with this environment", "wandb login, and the variables WANDB_*", ConfigError):
        if not wandb.login(prompt=False, verify=False):
            raise ConfigError("not logged in to W&B", "wandb login")


def save(spec: Mapping[str, Any], earlier: Mapping[str, str]) -> dict[str, str]:
    """Save both, those of an `earlier` answer anew; what W&B refuses is a clear line, not a traceback."""
    import wandb

    with refused("W&B did not take the dashboard", OFFLINE):
        entity = spec["entity"] or wandb.Api().default_entity
        full = {**spec, "entity": entity}
        here = {"entity": entity, "project": spec["project"]}
        known = earlier if here.items() <= earlier.items() else {}
        view = _renewed(workspace(full), known.get("workspace"), ("name", "sections", "runset_settings"))
        document = _renewed(report(full), known.get("report"), ("title", "description", "blocks"))
        view.save()
        document.save()
    return {**here, "workspace": view.url, "report": document.url}


def _renewed(made: Any, url: str | None, parts: Sequence[str]) -> Any:
    """The one that is at `url` with what was made now, so that a second call leaves no second copy."""
    if not url:
        return made
    try:
        there = type(made).from_url(url)
    except Exception:  # deleted since, or of a server that is no more: a new one then
        return made
    for part in parts:
        setattr(there, part, getattr(made, part))
    return there


def _key(name: str) -> str:
    """A field of a run, as W&B's own interface names it."""
    return {"group": "Group", "job_type": "JobType"}.get(name, name)
