"""A disk that takes no more: full, read-only or forbidden, as an error that names the way out."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from spikelm.errors import SpikeLMError

_DISK_ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "ENOTDIR", "EEXIST", "EIO")


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
