"""Which files of a folder a piece of work wrote: others that lie there are nobody's business."""

from __future__ import annotations

from pathlib import Path


class WrittenFiles:
    """The files of a folder that are new or were written again since this was made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = self._times()

    def paths(self) -> list[Path]:
        """By name."""
        return [path for path, time in sorted(self._times().items()) if self._before.get(path) != time]

    def _times(self) -> dict[Path, tuple[int, int]]:
        """When each file was written, and as which inode: what replaces a file is another one."""
        stats = {path: path.stat() for path in self.folder.rglob("*") if path.is_file()}
        return {path: (stat.st_mtime_ns, stat.st_ino) for path, stat in stats.items()}
