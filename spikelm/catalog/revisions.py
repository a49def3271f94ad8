"""Revisions of the hub: a commit never changes, a branch may move, and the hub's cache says which commit was taken."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
SNAPSHOTS = "snapshots"  # the folder of the hub's cache whose folders are called by their commits


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit; otherwise it is a branch, a tag, or none, which is the newest."""
    return bool(revision and _COMMIT.fullmatch(revision))


def commit_of(path: Path) -> str | None:
    """The commit of a file or folder in the hub's cache; None of any other place."""
    for place in (path, *path.parents):
        if place.parent.name == SNAPSHOTS and is_commit(place.name):
            return place.name
    return None


def branch_warning(repo: str, revision: str | None, commit: str | None, pin: str) -> str:
    """What is said of a revision that may move; `pin` is the setting that takes the commit in its place."""
    branch = f"{repo} is named by a branch ({revision})" if revision else f"{repo} is named without a revision"
    if commit is None:
        return f"{branch}, which may move: another run may read something else"
    return f"{branch}, which may move: this run reads commit {commit}; {pin} reads it again"
