"""Composed configs, kept: a report names hundreds of runs, and Hydra needs a good part of a second for each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import typing
from dataclasses import asdict, fields, is_dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from spikelm.config.compose import load_config
from spikelm.config.plugins import config_files
from spikelm.config.schema import PACKAGE, Config
from spikelm.errors import SpikeLMError
from spikelm.store.records import digest, plain, write_json


@lru_cache(maxsize=4096)
def composed(overrides: tuple[str, ...], root: Path) -> Config:
    """The config of overrides, from the cache of a store where it is there; not to be changed in place."""
    folder = root / ".cache" / "composed" / fingerprint()
    path = folder / f"{digest([overrides, os.getcwd()])}.json"
    try:
        return rebuilt(Config, json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError):  # not there, or not whole
        config = load_config(overrides)
    # Sizes of given weights are read from files that may change.
    if not config.backbone.path and root.is_dir() and rebuilt(Config, plain(asdict(config))) == config:
        _keep(path, asdict(config))
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
    for path in [*config_files(), *sorted(p for room in ("config", "catalog") for p in (PACKAGE / room).glob("*.py"))]:
        seen.update(path.name.encode() + b"\0" + path.read_bytes())
    for library in ("hydra-core", "omegaconf"):
        seen.update(metadata.version(library).encode())
    return seen.hexdigest()[:16]


def rebuilt(kind: Any, value: Any) -> Any:
    """A dataclass from what `asdict` made of it."""
    if value is None or not is_dataclass(kind):
        return value
    hints = _hints(kind)  # type: ignore[arg-type]
    known = {}
    for item in fields(kind):
        inside = _dataclass_of(hints[item.name])
        given = value[item.name]
        known[item.name] = (
            [rebuilt(inside, one) for one in given] if isinstance(given, list) else rebuilt(inside, given)
        )
    return kind(**known)  # type: ignore[operator]


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _dataclass_of(hint: Any) -> Any:
    """The dataclass inside a type, of list[X] | None also; else the type itself."""
    found = [inner for part in typing.get_args(hint) for inner in (part, *typing.get_args(part)) if is_dataclass(inner)]
    return found[0] if found else hint
