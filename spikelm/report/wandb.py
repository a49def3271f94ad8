"""spikelm-report wandb: the dashboard as a specification, and the report's files as a run with artifacts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.report.appearance import look_of
from spikelm.report.page.entries import directories, read_record, row_of
from spikelm.report.query.output import writable
from spikelm.runs.labels import labels
from spikelm.runs.tracking import effective_mode
from spikelm.store.atomic import write_json
from spikelm.store.hashing import digest

OFFLINE = "spikelm-report wandb --mode offline"
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


@dataclass(frozen=True)
class Scatter:
    """One mark per run: a final value against another."""

    title: str
    x: str
    y: str
    log_x: bool = False
    kind: str = "scatter"


@dataclass(frozen=True)
class Bars:
    """One bar per group of runs."""

    title: str
    metrics: tuple[str, ...]
    by: str
    kind: str = "bar"


@dataclass(frozen=True)
class Curves:
    """Logged values over the steps: those named in `y`, or all that `regex` finds."""

    title: str
    y: tuple[str, ...] = ()
    regex: str = ""
    x: str = "step"
    smooth: float = 0.0
    kind: str = "line"


@dataclass(frozen=True)
class LoggedTable:
    """A table that a run has logged."""

    title: str
    table: str
    kind: str = "table"


Panel = Scatter | Bars | Curves | LoggedTable


@dataclass(frozen=True)
class Section:
    """Panels under one heading."""

    name: str
    panels: tuple[Panel, ...]


SECTIONS = (
    Section(
        "Score against energy",
        (
            Scatter("score, mJ fp32", "energy_mj/fp32", "score", log_x=True),
            Scatter("score, share of the ANN's energy", "energy_of_ann", "score"),
            Scatter("score, firing rate", "firing_rate", "score"),
        ),
    ),
    Section(
        "Firing rates",
        (
            Bars("firing rate by system", ("firing_rate",), "group"),
            Curves("firing rate of each site", regex="^firing/.*"),
        ),
    ),
    Section(
        "Curves",
        (
            Curves("training loss", ("train/loss",), smooth=0.6),
            Curves("dev scores", regex="^dev/.*"),
            Curves("learning rate", ("train/lr",)),
        ),
    ),
    Section("Paper deltas", (LoggedTable("ours minus the paper's", DELTAS),)),
)


@dataclass(frozen=True)
class Coloured:
    """A run, and the group and task that W&B shows it under, in the colour of its system."""

    run: str
    group: str
    task: str
    colour: str


@dataclass(frozen=True)
class Dashboard:
    """Sections of panels over the project's runs, in words of our own."""

    project: str
    entity: str = ""
    title: str = TITLE
    group_by: tuple[str, ...] = ("group", "job_type")
    columns: tuple[str, ...] = ("tags", "score", "energy_mj/fp32", "energy_of_ann", "firing_rate", "spike_driven")
    sections: tuple[Section, ...] = SECTIONS
    colours: tuple[Coloured, ...] = ()


@dataclass(frozen=True)
class Delta:
    """A cell of a table: ours, the paper's, the difference; None for words, which have no place among numbers."""

    table: int
    scale: str
    source: str
    row: str
    column: str
    ours: float | None
    paper: float | None
    difference: float | None


def deltas(*folders: Path) -> list[Delta]:
    """Every cell of every table in these folders that has a number of ours."""
    cells = []
    for path in _files("tables", "table*.json", folders):
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            for line in raw["lines"]:
                for column, cell in line["cells"].items():
                    if cell["ours"] is not None:
                        numbers = (_number(cell[key]) for key in ("ours", "paper", "difference"))
                        cells.append(Delta(raw["id"], raw["scale"], raw["source"], line["name"], column, *numbers))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # the page says which table cannot be read
    return cells


def _number(value: object) -> float | None:
    """A W&B table has one type per column."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def colours(root: Path) -> tuple[Coloured, ...]:
    """The runs of the store in the colours that the page and the figures give to their systems."""
    found = []
    for directory, id in directories(root):
        record = read_record(root, directory, id)
        if id is None or record.config is None:
            continue
        row = row_of(record)
        found.append(Coloured(id, labels(record.config).group, row.task, look_of(row.system, row.T).colour))
    return tuple(found)


def artifacts(root: Path, made: Path) -> dict[str, list[Path]]:
    """The files of each artifact: tables, figures and the result of every run."""
    results = [path for directory, _ in directories(root) if (path := directory / "result.json").is_file()]
    named = {
        "tables": _files("tables", "*", (root, made)),
        "figures": _files("figures", "*", (root, made)),
        "results": results[:RESULT_FILES],
    }
    return {name: paths for name, paths in named.items() if paths}


def _files(part: str, pattern: str, folders: Sequence[Path]) -> list[Path]:
    """The files of a part (tables, figures) of several folders; of equal names that of the last folder."""
    named = {path.name: path for folder in folders for path in (folder / part).glob(pattern) if path.is_file()}
    return [named[name] for name in sorted(named)]


def build_dashboard(root: Path, made: Path, options: Options, console: Console) -> Path:
    """Write the specification, log the artifacts, and save workspace and report where W&B can be reached.

    Runs are those of the store `root`; tables and figures are in `made` as well, and what is written goes there.
    """
    mode = effective_mode(options.mode, console.print)  # type: ignore[arg-type]
    folder = writable(made / FOLDER)
    path = folder / "dashboard.json"
    dashboard = Dashboard(options.project, options.entity, colours=colours(root))
    write_json(path, asdict(dashboard))
    console.print(f"specification of the dashboard: {path}", soft_wrap=True, highlight=False)
    if mode == "disabled":
        return path
    if mode == "online":
        check_online()  # before anything is sent
    run = log_report(artifacts(root, made), deltas(root, made), folder, options, mode)
    console.print(f"tables, figures and results as artifacts: {run}", soft_wrap=True, highlight=False)
    if mode == "online":
        links = save(dashboard, _saved(folder / SAVED))
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
        links = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in links.items()} if isinstance(links, dict) else {}


def log_report(
    files: Mapping[str, Sequence[Path]], rows: Sequence[Delta], folder: Path, options: Options, mode: str
) -> Path:
    """One W&B run of the report itself: the table of deltas, and an artifact each of tables, figures and results."""
    import wandb

    stamp = [[_inside(path), path.stat().st_mtime_ns] for paths in files.values() for path in paths]
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
            _log(run, files, rows)
            run.finish()
        except Exception:
            with contextlib.suppress(Exception):  # W&B's own process may be what failed
                run.finish(exit_code=1)
            raise
        return Path(run.dir).parent


def _inside(path: Path) -> str:
    """The name of a file in an artifact: with its folder, and of a run's result with its task as well."""
    return "/".join(path.parts[-3:] if path.name == "result.json" else path.parts[-2:])


def _log(run: Any, files: Mapping[str, Sequence[Path]], rows: Sequence[Delta]) -> None:
    import wandb

    if rows:
        run.log({DELTAS: wandb.Table(columns=list(vars(rows[0])), data=[list(vars(row).values()) for row in rows])})
    for name, paths in files.items():
        artifact = wandb.Artifact(f"{run.project}-{name}", type=name)
        for path in paths:
            artifact.add_file(str(path), name=_inside(path))
        run.log_artifact(artifact)


def _tags(rows: Sequence[Delta]) -> list[str]:
    return sorted({name[:64] for row in rows for name in (row.scale, row.source)})


# --- the specification as a workspace and a report of wandb-workspaces, saved on W&B ---


@contextlib.contextmanager
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


def panel(reports: Any, shown: Panel) -> Any:
    """One panel of the dashboard."""
    match shown:
        case Scatter():
            x, y = (reports.SummaryMetric(name) for name in (shown.x, shown.y))
            return reports.ScatterPlot(title=shown.title, x=x, y=y, log_x=shown.log_x)
        case Bars():
            metrics = [reports.SummaryMetric(name) for name in shown.metrics]
            return reports.BarPlot(title=shown.title, metrics=metrics, orientation="h", groupby=_key(shown.by))
        case LoggedTable():
            return reports.WeavePanelSummaryTable(table_name=shown.table)
        case Curves():
            values = {"y": list(shown.y)} if shown.y else {"metric_regex": shown.regex}
            smooth = {"smoothing_factor": shown.smooth} if shown.smooth else {}
            return reports.LinePlot(title=shown.title, x=shown.x, **values, **smooth)


def workspace(dashboard: Dashboard) -> Any:
    """The saved view: every section open, runs grouped by table and system."""
    workspaces, reports = libraries()
    sections = [
        workspaces.Section(name=section.name, panels=[panel(reports, shown) for shown in section.panels], is_open=True)
        for section in dashboard.sections
    ]
    grouped = workspaces.RunsetSettings(
        groupby=[workspaces.Metric(_key(name)) for name in dashboard.group_by],
        pinned_columns=["tags:__ALL__" if name == "tags" else f"summary:{name}" for name in dashboard.columns],
        run_settings={one.run: workspaces.RunSettings(color=one.colour) for one in dashboard.colours},
        group_colors={path: one.colour for one in dashboard.colours for path in _paths(workspaces, one)},
    )
    return workspaces.Workspace(
        entity=dashboard.entity,
        project=dashboard.project,
        name=dashboard.title,
        sections=sections,
        runset_settings=grouped,
    )


def _paths(workspaces: Any, one: Coloured) -> tuple[Any, Any]:
    """Its group, and its group's runs on its task, as the runs of a workspace are grouped."""
    return one.group, workspaces.GroupPath(one.group, one.task)


def report(dashboard: Dashboard) -> Any:
    """The same panels as a document, one heading per section."""
    _, reports = libraries()
    entity, project = dashboard.entity, dashboard.project
    blocks: list[Any] = [reports.TableOfContents()]
    drawn = {one.run: one.colour for one in dashboard.colours}
    for one in dashboard.colours:
        key = reports.RunsetGroupKey(reports.Metric("Group"), one.group)
        drawn[reports.RunsetGroup("runs", (key,))] = one.colour
    for section in dashboard.sections:
        runs = reports.Runset(entity=entity, project=project, name="runs", groupby=["Group"])
        panels = [panel(reports, shown) for shown in section.panels]
        blocks += [
            reports.H1(text=section.name),
            reports.PanelGrid(runsets=[runs], panels=panels, custom_run_colors=drawn),
        ]
    about = "Scores, firing rates and energies of the runs of this project beside the paper's tables."
    return reports.Report(project=project, entity=entity, title=dashboard.title, description=about, blocks=blocks)


def check_online() -> None:
    """Refuse what cannot end well: no library, or nobody logged in; a prompt would wait for a key for ever."""
    import wandb

    libraries()
    with refused("W&B cannot be used with this environment", "wandb login, and the variables WANDB_*", ConfigError):
        if not wandb.login(prompt=False, verify=False):
            raise ConfigError("not logged in to W&B", "wandb login")


def save(dashboard: Dashboard, earlier: Mapping[str, str]) -> dict[str, str]:
    """Save both, those of an `earlier` answer anew; what W&B refuses is a clear line, not a traceback."""
    import wandb

    with refused("W&B did not take the dashboard", OFFLINE):
        entity = dashboard.entity or str(wandb.Api().default_entity)
        full = replace(dashboard, entity=entity)
        here = {"entity": entity, "project": dashboard.project}
        saved = earlier if here.items() <= earlier.items() else {}
        view = _renewed(workspace(full), saved.get("workspace"), ("name", "sections", "runset_settings"))
        document = _renewed(report(full), saved.get("report"), ("title", "description", "blocks"))
        view.save()
        document.save()
    return {**here, "workspace": view.url, "report": document.url}


def _renewed(new: Any, url: str | None, parts: Sequence[str]) -> Any:
    """The one that is at `url` with what was made now, so that a second call leaves no second copy."""
    if not url:
        return new
    try:
        old = type(new).from_url(url)
    except Exception:  # deleted since, or of a server that is no more: a new one then
        return new
    for part in parts:
        setattr(old, part, getattr(new, part))
    return old


def _key(name: str) -> str:
    """A field of a run, as W&B's own interface names it."""
    return {"group": "Group", "job_type": "JobType"}.get(name, name)
