"""What a run leaves on disk: hashing, atomic files, the metrics csv."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from spikelm.errors import SpikeLMError

_DISK_ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "ENOTDIR", "EEXIST", "EIO")


def _normal(value: Any, where: str) -> Any:
    """`value` with one spelling for equal numbers; anything JSON cannot hold faithfully is refused."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"identity holds {value} at {where}")
        return int(value) if value == int(value) else float(value)
    if isinstance(value, Mapping):
        bad = [key for key in value if not isinstance(key, str)]
        if bad:
            raise TypeError(f"identity has a key that is not text at {where}: {bad[0]!r}")
        return {key: _normal(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"identity holds a {type(value).__name__} at {where}")


def run_id(identity: Mapping[str, Any]) -> str:
    """16 hex digits of everything that decides a result; key order and 2 against 2.0 do not matter."""
    return digest(_normal(identity, "identity"))[:16]


def digest(value: Any) -> str:
    """sha256 of the canonical JSON of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """JSON-ready copy: tensors and numpy scalars as numbers, paths as text, NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


@contextlib.contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Turn a full, read-only or forbidden disk into an error that names the directory and the way out."""
    try:
        yield
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) not in _DISK_ERRORS:
            raise
        raise cannot_write(directory, error) from error


def cannot_write(directory: Path, error: Exception) -> SpikeLMError:
    """The error of a disk that takes no more."""
    reason = getattr(error, "strerror", None) or str(error)
    fix = "make room or give access, or write elsewhere: runs_dir=OTHER; then the same command goes on"
    return SpikeLMError(f"cannot write to {directory}: {reason}", fix)


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is a full or read-only disk; libraries hide it in their own errors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            return True
        if any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)):
            return True
        error = error.__cause__ or error.__context__
    return False


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` by `text` so that a reader, or a power cut, sees the old file or the new one."""
    with disk_errors(path.parent):
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        with contextlib.suppress(OSError):  # makes the rename durable; some file systems refuse
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    write_atomic(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


class MetricsCsv:
    """Long-format `step,name,value` rows, on disk as soon as they are logged."""

    HEADER = ("step", "name", "value")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        """Write one row a value and flush."""
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
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]
        rows = []
        for row in csv.reader(io.StringIO(whole)):
            with contextlib.suppress(ValueError):
                step, name, value = row
                rows.append((int(step), name, float(value)))
        return rows

    def truncate(self, step: int, keep: str | None = None) -> None:
        """Drop rows at or after `step`, but at `step` keep those named `keep`...: a resumed run logs them again."""
        self.close()
        if not self.path.exists():
            return
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.HEADER)
        stays = [row for row in self.rows() if row[0] < step or (keep and row[0] == step and row[1].startswith(keep))]
        writer.writerows((at, name, repr(value)) for at, name, value in stays)
        write_atomic(self.path, buffer.getvalue())

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
