"""The page's part of spikelm-report: page, serve, command, and wandb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from spikelm.cli.find_run import RUN, find_run
from spikelm.cli.stores import add_to, target
from spikelm.errors import SpikeLMError

Runner = Callable[[argparse.Namespace], object]
AddCommand = Callable[[str, Runner, str], argparse.ArgumentParser]  # name, what runs it, what it is about


def add_commands(command: AddCommand) -> None:
    """Make them known."""
    site = command("page", page, "write the site: runs/report/index.html")
    served = command("serve", serve, "show the site to this machine and keep it up to date")
    served.add_argument("--port", type=int, default=8321, help="of 127.0.0.1 (default 8321); 0 takes a free one")
    served.add_argument("--every", type=float, default=5.0, help="seconds between two looks at the store (default 5)")
    rerun = command("command", tell, "the exact command that makes a run again")
    rerun.add_argument("run", help=RUN)
    board = command("wandb", dashboard, "the W&B dashboard: saved when online, its specification when offline")
    board.add_argument("--mode", choices=("offline", "online"), default="offline")
    board.add_argument("--project", default="spikelm")
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

    server.serve(args.runs_dir, target(args), args.port, max(0.5, args.every))


def dashboard(args: argparse.Namespace) -> None:
    """Write the dashboard's specification, or save it on W&B."""
    from rich.console import Console

    from spikelm.report.wandb import Options, build_dashboard

    build_dashboard(args.runs_dir, target(args), Options(args.project, args.entity, args.mode), Console())


def tell(args: argparse.Namespace) -> None:
    """Print the command of one run; which run it is goes to stderr, so that the command can be piped."""
    from spikelm.report.query.rerun import rerun_command

    found = find_run(args.run, args.runs_dir)
    print(found, file=sys.stderr)
    if found.config is None or not (command := rerun_command(found.config)):
        where = found.run.directory / "config.yaml"
        raise SpikeLMError(f"the config of run {found.run.id} cannot be composed here", f"see {where}")
    print(command)
