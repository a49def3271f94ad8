"""The options that say which store and run a command reads, and where it puts what it makes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError

RUN = "a run directory, or the first digits of a run id"
OF_OTHERS = "of another store than your own: below report/ of your own"


def add_runs_dir(parser: argparse.ArgumentParser, trains: bool = False, **default: Any) -> None:
    """--runs-dir: a store that is read, and has to be there, or the one to train in; without it, the user's own.

    A command of a command leaves the default to the latter.
    """
    what = "the store to run in" if trains else "the store to read"
    own = default_runs_dir()
    parser.add_argument(
        "--runs-dir",
        metavar="DIR",
        type=_any_store if trains else existing_store,
        help=f"{what} (default: {own}; SPIKELM_RUNS sets it)",
        **(default or {"default": Path(own)}),
    )


def add_to(parser: argparse.ArgumentParser) -> None:
    """--to: the folder for all that is made of a store."""
    parser.add_argument(
        "--to", type=Path, metavar="DIR",
        help=f"the folder for what is made (default: report/ of your own store; {OF_OTHERS})",
    )  # fmt: skip


def existing_store(name: str) -> Path:
    """A folder that is there; a name that was mistyped must not become a new one."""
    path = _any_store(name)
    if not path.exists():
        raise ConfigError(f"--runs-dir {name}: {path} is not there", "--runs-dir DIR, the folder of a store")
    return path


def _any_store(name: str) -> Path:
    path = Path(name).absolute()
    if not name or (path.exists() and not path.is_dir()):
        raise ConfigError(f"--runs-dir {name or repr('')} is not a folder", "--runs-dir DIR, the folder of a store")
    return path


def target(args: argparse.Namespace) -> Path:
    """Where a command puts what it makes: --to, or the folder for its store."""
    from spikelm.report.query.output import report_folder

    to: Path | None = args.to
    return to.absolute() if to else report_folder(args.runs_dir)
