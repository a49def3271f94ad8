"""Composed configs, kept: a report names hundreds of runs, and Hydra needs a good part of a second for each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from spikelm.catalog.checkpoint_files import on_hub
from spikelm.catalog.revisions import is_commit
from spikelm.config.compose import load_config
from spikelm.config.paths import PACKAGE
from spikelm.config.plugins import config_files
from spikelm.config.recorded import from_record, to_record
from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.store.atomic import plain, write_json
from spikelm.store.hashing import digest


@lru_cache(maxsize=4096)
def composed(overrides: tuple[str, ...], root: Path) -> Config:
    """The config of overrides, from the cache of a store where it is there; not to be changed in place."""
    folder = root / ".cache" / "composed" / fingerprint()
    path = folder / f"{digest([overrides, os.getcwd()])}.json"
    try:
        return from_record(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError):  # not there, or not whole
        config = load_config(overrides)
    # Sizes of given weights are read from files that may change; those of a commit may not.
    given = config.backbone.path
    fixed = not given or (on_hub(given) and is_commit(given.partition("@")[2]))
    if fixed and root.is_dir() and from_record(plain(to_record(config))) == config:
        _keep(path, to_record(config))
    return config


def _keep(path: Path, value: dict[str, Any]) -> None:
    try:
        if not path.parent.is_dir():  # what an older version composed is of no use
            shutil.rmtree(path.parent.parent, ignore_errors=True)
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)
    except (OSError, SpikeLMError):  # a store that cannot be written to is still read
        return


@cache
def fingerprint() -> str:
    """Of all that decides what overrides mean: conf/, the modules that check it, the libraries that compose it."""
    seen = hashlib.sha256()
    code = [PACKAGE / "rules.py", *(path for room in ("config", "catalog") for path in (PACKAGE / room).rglob("*.py"))]
    for path in [*config_files(), *sorted(code)]:
        seen.update(str(path).encode() + b"\0" + path.read_bytes())
    for library in ("hydra-core", "omegaconf"):
        seen.update(metadata.version(library).encode())
    return seen.hexdigest()[:16]
