"""Checks of what a config could do beyond training: name files elsewhere, or run somebody's code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from spikelm.config.schema import Config
from spikelm.errors import ConfigError

_NAME = re.compile(r"\w[\w.+=-]*(/\w[\w.+=-]*)*", re.ASCII)
LONGEST = 100  # letters of a name: it becomes part of a path


def check_safety(config: Config) -> None:
    """Names are plain words."""
    names: dict[str, Any] = {
        "task.name": config.task.name,
        "scale": config.scale,
        "backbone.name": config.backbone.name,
        "neuron.name": config.neuron.name,
        "weights.name": config.weights.name,
    }
    for key, name in names.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST:
            raise ConfigError(f"{key}={name!r} is no name: letters, digits and _ . + = -, with / between parts")
    if not config.system.isprintable() or set("/\\") & set(config.system) or len(config.system) > LONGEST:
        raise ConfigError(f"system={config.system!r} is no title: printable, without / and \\")


def check_finite(node: Any, where: str = "") -> None:
    """Every number of a config is finite: nothing else can be told apart, recorded or trained with."""
    if isinstance(node, float) and not math.isfinite(node):
        raise ConfigError(f"{where}={node} is not valid; it is a finite number")
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list | tuple) else ()
    for key, value in items:
        check_finite(value, f"{where}.{key}" if where else str(key))
