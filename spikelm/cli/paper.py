"""The commands of spikelm-report that make parts of the paper: tables, figures, claims, and the runs they need."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from spikelm.cli.stores import target
from spikelm.errors import ConfigError
from spikelm.report.claims.claims import check_claims
from spikelm.report.claims.show_claims import show_claims, write_claims
from spikelm.report.figures.figures import (
    FIGURES,
    OWN_FIGURES,
    draw_figure,
    figure_runs,
    load_figure,
    write_figure,
)
from spikelm.report.query.output import naming_it, report_folder
from spikelm.report.query.selection import Results, Selection, Wanted
from spikelm.report.reproduce.launcher import chosen_launcher
from spikelm.report.tables.build import build_table, refused_rows, table_runs
from spikelm.report.tables.formats import show_table, write_table
from spikelm.report.tables.paper_table import OWN_TABLES, TABLES, PaperTable, load_table

#: keys that the command's own options or the table's rows decide
TAKEN = {
    "scale": "--scale",
    "source": "--source",
    "seed": "--seeds",
    "task": "--tasks",
    "runs_dir": "--runs-dir",
    "system": "the table's rows",
}


def selection_of(args: argparse.Namespace) -> Selection:
    """The selection that a command line asks for."""
    root, overrides = args.runs_dir, _overrides(args.rest)
    if args.source == "local" and not any(override.startswith("source.root=") for override in overrides):
        from spikelm.report.query.run_list import local_root

        overrides.append(f"source.root={local_root(root, args.scale)}")
    return Selection(args.scale, args.source, _seeds(args.seeds), root, tuple(overrides), target(args))


def table(args: argparse.Namespace) -> int:
    """spikelm-report table."""
    results = Results(selection_of(args))
    if _tables(_chosen_tables(args.id, args.tasks), results, args.ours):
        _hint(results.selection, f"table {args.id}")
    return 0


def figure(args: argparse.Namespace) -> int:
    """spikelm-report figure."""
    results = Results(selection_of(args))
    if _figures(_figure_ids(args.id), results):
        _hint(results.selection, f"figure {args.id}")
    return 0


def claims(args: argparse.Namespace) -> int:
    """spikelm-report claims."""
    results = Results(selection_of(args))
    with Console(stderr=True).status("which runs the claims are about"):
        verdicts = check_claims(results, args.energy)
    path = write_claims(verdicts, results.selection, args.energy)
    if args.json:
        print(path.read_text(), end="")
    else:
        show_claims(verdicts, results.selection)
        print(f"  written to {path}")
        if any(one.missing for one in verdicts):
            _hint(results.selection, "claims")
    return 0


def reproduce(args: argparse.Namespace) -> int:
    """spikelm-report reproduce: run what is missing, then make what was asked for."""
    from spikelm.report.reproduce.reproduce import reproduce as run_missing

    launcher, args.rest = chosen_launcher(args.launcher, args.rest)
    selection = selection_of(args)
    results = Results(selection)
    tables: list[PaperTable] = []
    figures: list[str] = []
    if args.id == "all":
        tables, figures = _chosen_tables("all", args.tasks), list(FIGURES)
    elif args.id in OWN_TABLES:  # with its figure, which shows all of its tasks
        tables = _chosen_tables(args.id, args.tasks)
        figures = [args.id] if args.id in OWN_FIGURES and not args.tasks else []
    elif args.id.removeprefix("table").isdigit():
        tables = _chosen_tables(args.id.removeprefix("table"), args.tasks)
    else:
        figures = _figure_ids(args.id)
    with Console(stderr=True).status("which runs this needs, and which are there"):
        wanted: list[Wanted] = [run for one in tables for run in table_runs(one, results)]
        wanted += [run for id in figures for run in figure_runs(load_figure(id), results)]
        refused = refused_rows(tables, results)
    titles = [*(f"table {one.id}" for one in tables), *(load_figure(id).label for id in figures)]
    title = "all tables and figures" if args.id == "all" else ", ".join(titles)
    code = run_missing(f"{title} at {selection.where}", wanted, results, launcher, refused, args.plan)
    if args.plan:
        return code
    fresh = Results(selection)  # what has been run since
    _tables(tables, fresh)
    _figures(figures, fresh)
    if args.id == "all":
        verdicts = check_claims(fresh)
        write_claims(verdicts, selection)
        show_claims(verdicts, selection)
    said = f"  as a page, with every run: spikelm-report page{naming_it(selection.root)}"
    Console().print(said, soft_wrap=True, highlight=False)
    return code


def reference(args: argparse.Namespace) -> int:
    """spikelm-report reference."""
    from spikelm.report.reproduce.reference import renew

    to = args.to.absolute()
    selection = replace(selection_of(args), to=report_folder(args.runs_dir))
    path = renew(selection, to, _seeds(args.further_seeds) if args.further_seeds else ())
    print(f"  written to {path}")
    return 0


def _hint(selection: Selection, command: str) -> None:
    """Where runs are missing: those that come with the project, if there are any of this selection."""
    kept = selection.root / "reference"
    if (kept / "tables" / f"claims-{selection.suffix}.json").is_file():
        said = f"  made of the runs that come with the project: spikelm-report {command} --runs-dir {kept}"
        Console().print(said, soft_wrap=True, highlight=False)


def _tables(tables: Sequence[PaperTable], results: Results, ours_only: bool = False) -> bool:
    """Build, show and write them; whether runs are missing."""
    missing = False
    for one in tables:
        data = build_table(one, results, ours_only)
        missing |= bool(data.missing)
        show_table(data)
        paths = write_table(data, results.selection.folder, results.selection.root)
        Console().print(f"  written to {paths[0]} (and {_endings(paths[1:])})", soft_wrap=True, highlight=False)
    return missing


def _figures(ids: Sequence[str], results: Results) -> bool:
    """Draw and write them; whether runs are missing."""
    console = Console()
    missing = False
    for id in ids:
        drawn = draw_figure(id, results)
        missing |= bool(drawn.missing)
        console.print(f"{drawn.title}. {drawn.caption}", soft_wrap=True, highlight=False, markup=False)
        if drawn.figure is not None:
            paths = write_figure(drawn, results.selection.folder)
            console.print(f"  written to {paths[0]} (and {_endings(paths[1:])})", soft_wrap=True, highlight=False)
        for command in drawn.missing:
            console.print(f"  missing: {command}", soft_wrap=True, highlight=False, markup=False)
        if drawn.missing:
            console.print(f"  all of them: spikelm-report reproduce {id} --scale {results.selection.scale}")
    return missing


def _endings(paths: Sequence[Path]) -> str:
    return ", ".join(dict.fromkeys(path.suffix for path in paths))


def _chosen_tables(id: str, tasks: str) -> list[PaperTable]:
    tables = [load_table(one) for one in (TABLES if id == "all" else [id])]
    if not tasks:
        return tables
    names = {task.rpartition("/")[2] for task in tasks.split(",")}
    having = [one for one in tables if names & {task.rpartition("/")[2] for task in one.tasks}]
    return [one.only(tasks.split(",")) for one in (having if id == "all" else tables)]


def _figure_ids(id: str) -> list[str]:
    return list(FIGURES) if id == "all" else [load_figure(id).id]


def _overrides(rest: Sequence[str]) -> list[str]:
    """The overrides of a command line, if a table can be made with them."""
    for word in rest:
        key, _, value = word.partition("=")
        if key in TAKEN:
            fix = f"{TAKEN[key]} {value}" if TAKEN[key].startswith("--") else ""
            raise ConfigError(f"{word}: {key} of a table's runs comes from {TAKEN[key]}", fix)
    return list(rest)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(seed) for seed in text.split(",")))
    except ValueError:
        raise ConfigError(f"--seeds {text} is not a list of whole numbers", "--seeds 1,2,3") from None
