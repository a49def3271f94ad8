"""The page's part of spikelm-report: page, serve, command, and wandb."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from spikelm.errors import SpikeLMError

Runner = Callable[[argparse.Namespace], object]
AddCommand = Callable[[str, Runner, str], argparse.ArgumentParser]  # name, what runs it, what it is about


def add_commands(command: AddCommand) -> None:
    """Make them known."""
    command("page", page, "write the site: report/index.html in the store")
    served = command("serve", serve, "show the site to this machine and keep it up to date")
    served.add_argument("--port", type=int, default=8321, help="of 127.0.0.1 (default 8321); 0 takes a free one")
    served.add_argument("--every", type=float, default=5.0, help="seconds between two looks at the store (default 5)")
    rerun = command("command", tell, "the exact command that makes a run again")
    rerun.add_argument("run", help="a run directory, or the first digits of a run id")
    board = command("wandb", dashboard, "the W&B dashboard: saved when online, its specification when offline")
    board.add_argument("--mode", choices=("offline", "online"), default="offline")
    board.add_argument("--project", default="spikelm")
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
