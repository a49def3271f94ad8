"""The options that say which store a command reads, and where it puts what it makes."""

from __future__ import annotations

import argparse
from pathlib import Path

from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError
from spikelm.report.query.output import report_folder

OF_OTHERS = "of another store than your own: below report/ of your own"


def add_runs_dir(parser: argparse.ArgumentParser, trains: bool = False) -> None:
    """--runs-dir: a store that is read, and has to be there, or the one to train in; without it, the user's own."""
    what = "the store to run in" if trains else "the store to read, to which nothing is written"
    parser.add_argument(
        "--runs-dir", type=_any_store if trains else existing_store, default=Path(default_runs_dir()), metavar="DIR",
        help=f"{what} (default: SPIKELM_RUNS, or runs/ of the checkout)",
    )  # fmt: skip


def add_to(parser: argparse.ArgumentParser) -> None:
    """--to: the folder for all that is made of a store."""
    parser.add_argument(
        "--to", type=Path, metavar="DIR",
        help=f"the folder for what is made (default: report/ of your own store; {OF_OTHERS})",
    )  # fmt: skip


def existing_store(name: str) -> Path:
    """A folder that is there; a name that was mistyped must not become a new one."""
    path = Path(name)
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "is not there"
        raise ConfigError(f"--runs-dir {name}: {path.absolute()} {what}", "--runs-dir DIR, the folder of a store")
    return path.absolute()


def _any_store(name: str) -> Path:
    return Path(name).absolute()


def target(args: argparse.Namespace) -> Path:
    """Where a command puts what it makes: --to, or the folder for its store."""
    return args.to.absolute() if args.to else report_folder(args.runs_dir)
