"""The page's part of spikelm-report: page, serve, command, and wandb."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from spikelm.cli.manual import FOUND
from spikelm.errors import SpikeLMError

Runner = Callable[[argparse.Namespace], object]
#: name, what runs it, and of its manual: about, description, examples and exit codes
AddCommand = Callable[..., argparse.ArgumentParser]


def add_commands(command: AddCommand) -> None:
    """Make them known."""
    command(
        "page",
        page,
        "write the site: report/index.html in the store",
        "Tables, figures, claims and a page for every run, as files that a browser shows without a network. Only what "
        "has changed is written again.",
        {"spikelm-report page": "then open report/index.html of the store"},
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
    rerun.add_argument("run", metavar="RUN", help="a run directory, or the first digits of a run id")
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


def overview(args: argparse.Namespace) -> None:
    """Without a command: list the runs, and write the page if there are any."""
    from spikelm.report.query.run_list import list_runs

    if list_runs(Path(args.runs_dir)):
        page(args)


def page(args: argparse.Namespace) -> None:
    """Build the site and say where it is."""
    from rich.console import Console

    from spikelm.report.page.site import Site

    console, site = Console(), Site(Path(args.runs_dir))
    built = site.build()
    said = f"page: {built.index} ({built.runs} runs, {built.written} pages written)"
    console.print(said, soft_wrap=True, highlight=False)
    if built.untold:  # the page can be looked at meanwhile, and what is stopped here the next build goes on with
        console.print(f"  working out the commands that make {built.untold} of the runs again, once for all")
    while built.untold:
        with console.status(f"{built.untold} to go"):
            built = site.build()


def serve(args: argparse.Namespace) -> None:
    """Serve it until Ctrl-C."""
    from spikelm.report.page import serve as server

    server.serve(Path(args.runs_dir), args.port, max(0.5, args.every))


def dashboard(args: argparse.Namespace) -> None:
    """Write the dashboard's specification, or save it on W&B."""
    from rich.console import Console

    from spikelm.report.wandb import Options, build_dashboard

    build_dashboard(Path(args.runs_dir).absolute(), Options(args.project, args.entity, args.mode), Console())


def tell(args: argparse.Namespace) -> None:
    """Print the command of one run."""
    from spikelm.report.page.entries import directories, read_record
    from spikelm.report.query.rerun import rerun_command

    name, root = args.run, Path(args.runs_dir)
    digits = name.rstrip("/").rpartition("-")[2]
    for directory, id in directories(root):
        if id is not None and (id.startswith(digits) or directory == Path(name).absolute()):
            config = read_record(root, directory, id).config
            if config is not None and (command := rerun_command(config)):
                print(command)
                return
            raise SpikeLMError(f"the config of run {id} cannot be composed here", f"see {directory / 'config.yaml'}")
    raise SpikeLMError(f"no run {name} under {root}", "spikelm-report lists the runs")
