"""The page's part of spikelm-report: page, serve, command, and wandb."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spikelm.errors import SpikeLMError

NAMES = ("page", "serve", "command", "wandb")


def add_commands(commands: Any) -> list[argparse.ArgumentParser]:
    """Their parsers."""
    page = commands.add_parser("page", help="write the site: report/index.html in the store")
    serve = commands.add_parser("serve", help="show the site to this machine and keep it up to date")
    serve.add_argument("--port", type=int, default=8321, help="of 127.0.0.1 (default 8321); 0 takes a free one")
    serve.add_argument("--every", type=float, default=5.0, help="seconds between two looks at the store (default 5)")
    command = commands.add_parser("command", help="the exact command that makes a run again")
    command.add_argument("run", help="a run directory, or the first digits of a run id")
    wandb = commands.add_parser("wandb", help="the W&B dashboard: saved when online, its specification when offline")
    wandb.add_argument("--mode", choices=("offline", "online"), default="offline")
    wandb.add_argument("--project", default="spikelm")
    wandb.add_argument("--entity", default="", help="team or user on W&B; your default one by default")
    return [page, serve, command, wandb]


def run_command(args: argparse.Namespace, root: Path) -> int:
    """One of NAMES."""
    if args.command == "serve":
        from spikelm.report.page.serve import serve

        serve(root, args.port, max(0.5, args.every))
    elif args.command == "command":
        print(_command(args.run, root))
    elif args.command == "wandb":
        from rich.console import Console

        from spikelm.report.dashboard import Options, build_dashboard

        build_dashboard(root.absolute(), Options(args.project, args.entity, args.mode), Console())
    else:
        write_page(root)
    return 0


def write_page(root: Path) -> Path:
    """Build the site and say where it is."""
    from rich.console import Console

    from spikelm.report.page.site import Site

    built = Site(root).build()
    Console().print(
        f"page: {built.index} ({built.runs} runs, {built.written} pages written)", soft_wrap=True, highlight=False
    )
    return built.index


def _command(name: str, root: Path) -> str:
    from spikelm.report.page.entries import directories, read_record
    from spikelm.report.rerun import rerun_command

    digits = name.rstrip("/").rpartition("-")[2]
    for directory, id in directories(root):
        if id is not None and (id.startswith(digits) or directory == Path(name).absolute()):
            if command := rerun_command(read_record(root, directory, id).config):
                return command
            raise SpikeLMError(f"the config of run {id} cannot be composed here", f"see {directory / 'config.yaml'}")
    raise SpikeLMError(f"no run {name} under {root}", "spikelm-report lists the runs")
