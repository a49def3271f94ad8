"""export.json: what it keeps of the task, so that whoever has the folder alone can read rows and score answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spikelm.config.settings.task import TaskConfig
from spikelm.errors import CheckpointError

RECORD = "export.json"
#: of a task: what rows of one's own are read and scored by; where its own files lie is nobody else's business
KEPT = ("name", "kind", "columns", "labels", "metrics", "score_range", "file_columns")


def recorded_task(task: TaskConfig) -> dict[str, Any]:
    """What export.json keeps of a task."""
    return {name: getattr(task, name) for name in KEPT}


def exported_task(folder: Path) -> TaskConfig:
    """The task of an exported folder; raises where it has none that can be read."""
    try:
        reads = json.loads((folder / RECORD).read_text(encoding="utf-8"))["reads"]
        return TaskConfig(**{name: reads[name] for name in KEPT})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} does not say how rows are read: {RECORD} {_why(error)}",
            "export the run again: spikelm-export RUN",
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    return f"has no {error.args[0]}" if isinstance(error, KeyError) else f"cannot be read ({error})"
