"""A config as plain data, as runs record it, and back."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from typing import Any

from spikelm.config.settings.schema import Config


def to_record(config: Config) -> dict[str, Any]:
    """The config as nested dictionaries, ready for JSON or YAML."""
    return asdict(config)


def from_record(record: Mapping[str, Any]) -> Config:
    """The config that a run recorded; raises TypeError or KeyError where the record is not of this schema."""
    config: Config = rebuilt(Config, record)
    return config


def rebuilt(kind: Any, value: Any) -> Any:
    """A dataclass from what `asdict` made of it; a field that is not there takes its default."""
    if value is None or not (isinstance(kind, type) and is_dataclass(kind)):
        return value
    hints = _hints(kind)
    unknown = set(value) - {item.name for item in fields(kind)}
    if unknown:
        raise KeyError(f"{kind.__name__} has no field {sorted(unknown)[0]}")
    arguments: dict[str, Any] = {}
    for item in fields(kind):
        if item.name not in value:
            if item.default is MISSING and item.default_factory is MISSING:
                raise KeyError(f"{kind.__name__} needs {item.name}")
            continue
        inside, given = _dataclass_inside(hints[item.name]), value[item.name]
        arguments[item.name] = (
            [rebuilt(inside, element) for element in given] if isinstance(given, list) else rebuilt(inside, given)
        )
    return kind(**arguments)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _dataclass_inside(hint: Any) -> Any:
    """The dataclass inside a type, of list[X] | None also; else the type itself."""
    inside = [
        inner for part in typing.get_args(hint) for inner in (part, *typing.get_args(part)) if is_dataclass(inner)
    ]
    return inside[0] if inside else hint
