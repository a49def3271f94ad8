"""metrics.csv: what a run logs while it trains."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_atomic


class MetricsCsv:
    """Long-format `step,name,value` rows, on disk as soon as they are logged."""

    HEADER = ("step", "name", "value")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        """Write one row per value and flush."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(
            (step, name, repr(float(value))) for name, value in values.items()
        )
        with disk_errors(self.path.parent):
            try:
                file = self._file or self._open()
                file.write(buffer.getvalue())
                file.flush()
            except OSError:
                self.close()
                raise

    def rows(self) -> list[tuple[int, str, float]]:
        """Every whole row; one torn by a crash is left out."""
        rows = []
        for row in csv.reader(io.StringIO(self.text())):
            with contextlib.suppress(ValueError):
                step, name, value = row
                rows.append((int(step), name, float(value)))
        return rows

    def text(self) -> str:
        """Header and every whole row, as they are on disk."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        return text[: text.rfind("\n") + 1]

    def restore(self, text: str) -> None:
        """Replace all rows by those of an earlier `text`."""
        self.close()
        if text:
            write_atomic(self.path, text)
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        if self.path.exists():
            with open(self.path, "rb+") as raw:  # a row torn by a crash must not swallow the next one
                raw.truncate(raw.read().rfind(b"\n") + 1)
        self._file = open(self.path, "a", encoding="utf-8", newline="")  # noqa: SIM115
        if self.path.stat().st_size == 0:
            self._file.write(",".join(self.HEADER) + "\n")
        return self._file
