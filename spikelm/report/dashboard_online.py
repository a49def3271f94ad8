"""The dashboard's specification as a workspace and a report of wandb-workspaces, saved on W&B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spikelm.errors import ConfigError, SpikeLMError


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
        return reports.BarPlot(title=title, metrics=metrics, orientation="h", groupby=spec["by"])
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
    grouped = workspaces.RunsetSettings(groupby=[workspaces.Metric(_key(name)) for name in spec["group_by"]])
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
    if not wandb.login(prompt=False, verify=False):
        raise ConfigError("not logged in to W&B", "wandb login")


def save(spec: Mapping[str, Any]) -> dict[str, str]:
    """Save both; what W&B answers is a clear line, not a traceback."""
    import wandb

    entity = spec["entity"] or wandb.Api().default_entity
    full = {**spec, "entity": entity}
    try:
        view, document = workspace(full), report(full)
        view.save()
        document.save()
    except Exception as error:
        raise SpikeLMError(
            f"W&B did not take the dashboard: {type(error).__name__}: {error}", "spikelm-report wandb --mode offline"
        ) from error
    return {"workspace": view.url, "report": document.url}


def _key(name: str) -> str:
    """A field of a run, as W&B's own interface names it."""
    return {"group": "Group", "job_type": "JobType"}.get(name, name)
