"""The page's part of spikelm-report: page, serve, command, and wandb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from spikelm.catalog.quantities import counted
from spikelm.cli.manual import FOUND
from spikelm.cli.stores import RUN, add_to, target
from spikelm.errors import SpikeLMError

Runner = Callable[[argparse.Namespace], object]
#: name, what runs it, and of its manual: about, description, examples and exit codes
AddCommand = Callable[..., argparse.ArgumentParser]


def add_commands(command: AddCommand) -> None:
    """Make them known."""
    site = command(
        "page",
        page,
        "write the site: report/index.html of your store",
        "Tables, figures, claims and a page for every run, as files that a browser shows without a network. Only what "
        "has changed is written again.",
        {"spikelm-report page": "then open the index.html that it names"},
    )
    served = command(
        "serve",
        serve,
        "show the site to this machine and keep it up to date",
        "Serves the site at 127.0.0.1, to this machine alone, and looks at the store now and then; Ctrl-C ends it.",
        {"spikelm-report serve --port 0": "at a free port, which it prints"},
    )
    served.add_argument("--port", type=int, default=8321, metavar="N", help="of 127.0.0.1; 0 takes a free one")
    served.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks at the store")
    rerun = command(
        "command",
        tell,
        "the exact command that makes a run again",
        "Prints the shortest spikelm-run that composes the config of the run. Nothing is run.",
        {"spikelm-report command 3f2a": "of the run whose id begins with 3f2a"},
        FOUND,
    )
    rerun.add_argument("run", metavar="RUN", help=RUN)
    board = command(
        "wandb",
        dashboard,
        "the W&B dashboard: saved when online, its specification when offline",
        "Describes a workspace with the panels of the paper's tables and figures for the runs that W&B tracks. Online "
        "it is saved to your account, offline it is written to a file.",
        {
            "spikelm-report wandb": "write the specification",
            "spikelm-report wandb --mode online --entity TEAM": "save it on W&B",
        },
    )
    board.add_argument("--mode", choices=("offline", "online"), default="offline", help="write it, or save it on W&B")
    board.add_argument("--project", default="spikelm", help="on W&B")
    board.add_argument("--entity", default="", help="team or user on W&B; your default one by default")
    for added in (site, served, board):
        add_to(added)


def overview(args: argparse.Namespace) -> None:
    """Without a command: list the runs, and write the page if there are any."""
    from spikelm.report.query.run_list import list_runs

    if list_runs(args.runs_dir):
        page(args)


def page(args: argparse.Namespace) -> None:
    """Build the site and say where it is."""
    from rich.console import Console

    from spikelm.report.page.site import Site

    console, site = Console(), Site(args.runs_dir, target(args))
    built = site.build()
    said = f"page: {built.index} ({counted(built.runs, 'run')}, {counted(built.written, 'file')} written)"
    console.print(said, soft_wrap=True, highlight=False)
    if built.untold:  # the page can be looked at meanwhile, and what is stopped here the next build goes on with
        console.print(f"  working out the commands that make {built.untold} of the runs again, once for all")
    while built.untold:
        with console.status(f"{built.untold} to go"):
            built = site.build()


def serve(args: argparse.Namespace) -> None:
    """Serve it until Ctrl-C."""
    from spikelm.report.page import serve as server

    server.serve(args.runs_dir, target(args), args.port, max(0.5, args.every))


def dashboard(args: argparse.Namespace) -> None:
    """Write the dashboard's specification, or save it on W&B."""
    from rich.console import Console

    from spikelm.report.wandb import Options, build_dashboard

    build_dashboard(args.runs_dir, target(args), Options(args.project, args.entity, args.mode), Console())


def tell(args: argparse.Namespace) -> None:
    """Print the command of one run; which run it is goes to stderr, so that the command can be piped."""
    from spikelm.cli.find_run import find_run
    from spikelm.report.query.rerun import rerun_command

    found = find_run(args.run, args.runs_dir)
    print(found, file=sys.stderr)
    if found.config is None or not (command := rerun_command(found.config)):
        where = found.run.directory / "config.yaml"
        raise SpikeLMError(f"the config of run {found.run.id} cannot be composed here", f"see {where}")
    print(command)
