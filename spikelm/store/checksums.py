"""Checksums of what is written: sha256 beside a file or a folder, in the format that `sha256sum -c` reads.

What was made before there were checksums has none, and counts as whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_atomic

_log = logging.getLogger(__name__)
SUMS = "SHA256SUMS"  # of a folder's files
SEAL = ".sha256"  # of one file, beside it


def file_hash(path: Path) -> str:
    """sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_path(path: Path) -> Path:
    """Where the checksum of a file is kept."""
    return path.with_name(path.name + SEAL)


def seal(path: Path, digest: str) -> None:
    """Keep the checksum that a file has, or is about to have."""
    write_atomic(seal_path(path), f"{digest}  {path.name}\n")


def broken_seal(path: Path) -> bool:
    """Whether a file is not what its checksum says; False where it has none."""
    sums = _read(seal_path(path))
    return sums is not None and sums.get(path.name) != file_hash(path)


def seal_folder(folder: Path) -> None:
    """Keep the checksums of all files of a folder in it."""
    sums = file_sums(folder, [folder])
    write_atomic(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def damaged_in(folder: Path) -> list[str]:
    """The files of a folder that are missing or not what its checksums say; none where it has no checksums."""
    sums = _read(folder / SUMS)
    return [] if sums is None else damaged(folder, sums)


def whole_folder(folder: Path) -> bool:
    """Whether a folder of a cache is there and whole; a damaged one is removed, with a warning, to be made again."""
    if not folder.is_dir():
        return False
    if not (names := damaged_in(folder)):
        return True
    _log.warning("%s is damaged (%s does not match its checksum): it is made again", folder, ", ".join(names))
    with disk_errors(folder.parent), contextlib.suppress(FileNotFoundError):  # another process may be quicker
        shutil.rmtree(set_aside(folder))
    return False


def file_sums(root: Path, places: Iterable[Path]) -> dict[str, str]:
    """Checksums of files, and of the files in folders, by their path from `root`; what is not there is left out."""
    files = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return {
        str(path.relative_to(root)): file_hash(path)
        for path in files
        if path.is_file() and not path.name.startswith(".") and path.name != SUMS
    }


def damaged(root: Path, sums: Mapping[str, str], under: str = "") -> list[str]:
    """The files (those whose path starts with `under`) that are missing, unreadable or not what `sums` says."""
    return [name for name, digest in sums.items() if name.startswith(under) and not _is(root / name, digest)]


def _is(path: Path, digest: str) -> bool:
    try:
        return file_hash(path) == digest
    except OSError:
        return False


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Move a file or folder out of the way, to a name that nothing looks for; it may tell what went wrong."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    os.replace(path, aside)
    return aside


def _read(path: Path) -> dict[str, str] | None:
    """Checksums by name; an empty mapping, which nothing matches, where they are damaged themselves."""
    try:
        text = path.read_text(encoding="ascii")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return {path.name.removesuffix(SEAL): ""}
    rows = (line.split("  ", 1) for line in text.splitlines())
    sums = {row[1]: row[0] for row in rows if len(row) == 2}
    return sums or {path.name.removesuffix(SEAL): ""}
