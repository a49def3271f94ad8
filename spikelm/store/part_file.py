"""A file of lines that is there whole or not at all, and whose writing goes on where a killed command left it.

While it grows it is called NAME.part, and NAME.part.json says what it is made of. A part that is made of something
else is not gone on with.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from spikelm.errors import SpikeLMError
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_json

Origins = Mapping[str, str]  # what it is made of, in words -> its checksum or value


class PartFile:
    """Lines that were kept by an earlier command, and those that are added; `finish` gives the file its name."""

    def __init__(self, path: Path, origins: Origins, file: BinaryIO, kept: int) -> None:
        self.path = path
        self.origins = origins
        self.kept = kept  # lines
        self._file = file

    def lines(self) -> Iterator[str]:
        """The lines that an earlier command left."""
        with part_of(self.path).open(encoding="utf-8", newline="\n") as file:
            for _ in range(self.kept):
                yield file.readline().removesuffix("\n")

    def add(self, lines: Sequence[str]) -> None:
        """Add lines; when this comes back, a power cut does not take them."""
        with disk_errors(self.path.parent):
            self._file.write("".join(f"{line}\n" for line in lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Give it its name: it is whole."""
        with disk_errors(self.path.parent):
            os.replace(part_of(self.path), self.path)
            origins_of(self.path).unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """What a file is called while it grows."""
    return path.with_name(f"{path.name}.part")


def origins_of(path: Path) -> Path:
    """Where it is said what a growing file is made of."""
    return path.with_name(f"{path.name}.part.json")


def refuse_finished(path: Path) -> None:
    """Raise where the file is there already."""
    if path.exists():
        raise SpikeLMError(f"{path} is there already", "--force writes it anew, or name another file")


@contextlib.contextmanager
def growing(path: Path, origins: Origins, together: int, anew: bool = False) -> Iterator[PartFile]:
    """Open a file to add lines to; `together` lines are kept or none of them, and `anew` keeps nothing."""
    if not anew:
        refuse_finished(path)
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part_of(path).open("a+b")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SpikeLMError(
                f"another process is writing {part_of(path)}", "wait for it, or name another file"
            ) from error
        kept, end = (0, 0) if anew or _is_new(path, origins) else _whole_lines(file, together)
        with disk_errors(path.parent):
            file.truncate(end)
            write_json(origins_of(path), origins)
        yield PartFile(path, origins, file, kept)


def _is_new(path: Path, origins: Origins) -> bool:
    """Whether nothing is there to go on with; raises where what is there is made of something else."""
    if not part_of(path).stat().st_size:
        return True
    try:
        before = json.loads(origins_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict):
        raise SpikeLMError(f"nothing says what {part_of(path)} is made of", "--force starts anew")
    if other := [name for name in origins if before.get(name) != origins[name]]:
        raise SpikeLMError(
            f"{part_of(path)} was begun with another {' and another '.join(other)}",
            "--force starts anew, or name another file",
        )
    return False


def _whole_lines(file: BinaryIO, together: int) -> tuple[int, int]:
    """How many lines are kept, and where they end in the file: what a kill cut off is no line."""
    file.seek(0)
    count = place = end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        count, place = count + 1, place + len(line)
        if count % together == 0:
            end = place
    return count - count % together, end
