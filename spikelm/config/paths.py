"""Where conf/ and the runs are."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def config_dir() -> Path:
    """conf/ of the checkout, or the copy inside an installed wheel."""
    inside = PACKAGE / "conf"
    return inside if inside.is_dir() else PACKAGE.parent / "conf"


def default_runs_dir() -> str:
    """SPIKELM_RUNS, else runs/ of the checkout, else runs/ here: the same wherever the command is called from."""
    if named := os.environ.get("SPIKELM_RUNS"):
        return str(Path(named).expanduser().absolute())
    checkout = PACKAGE.parent
    return str((checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "runs")
