"""Where what is made of a store goes: never into a store that is only read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from spikelm.config.paths import default_runs_dir
from spikelm.errors import SpikeLMError
from spikelm.store.hashing import digest
from spikelm.store.store import safe_name


def writable(folder: Path) -> Path:
    """A folder, made where it is not there; one that cannot be written to is an error that says where else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise SpikeLMError(f"cannot write to {folder}: {error.strerror}", "--to DIR puts it elsewhere") from error
    return folder


def own_store() -> Path:
    """The user's own store: SPIKELM_RUNS, or runs/ of the checkout. Caches of commands that read are there, too."""
    return Path(default_runs_dir())


def is_own(root: Path) -> bool:
    """Whether a store is the user's own, whatever it is called."""
    return root.resolve() == own_store().resolve()


def naming_it(root: Path) -> str:
    """What a command needs behind it to read a store: nothing for the user's own."""
    return "" if is_own(root) else f" --runs-dir {root}"


def report_folder(root: Path) -> Path:
    """The folder for all that is made of a store: report/ in the user's own one, in which each other store has a part.

    A store inside the own one (runs/reference) is known by its name alone, others by their place as well.
    """
    folder, place = own_store() / "report", root.resolve()
    if is_own(root):
        return folder
    inside = place.is_relative_to(own_store().resolve())
    name = safe_name("-".join(place.relative_to(own_store().resolve()).parts) if inside else place.name)
    return folder / (f"of-{name}" if inside else f"of-{name}-{digest(str(place))[:6]}")
