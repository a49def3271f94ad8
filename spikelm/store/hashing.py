"""Hashes of plain data: the id of a run, and checksums of records."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


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
