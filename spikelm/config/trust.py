"""Whose code a config may run: `_target_` names a class, and only of packages that are trusted on purpose.

Ours are. A user adds others with SPIKELM_ALLOW=package,package in the environment, or `trust("package")` in Python; a
plugin is trusted by being installed as one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from spikelm.config.plugins import plugins
from spikelm.errors import ConfigError

VARIABLE = "SPIKELM_ALLOW"
#: where the objects of Hydra's own part come from: launchers, sweepers, callbacks and handlers of its log
OF_HYDRA = ("hydra", "hydra_plugins", "logging", "colorlog")
_trusted = {"spikelm"}


def trust(package: str) -> None:
    """Let `_target_` name classes of a package: a deliberate act, because a config can then run its code."""
    if not package.isidentifier():
        raise ValueError(f"{package!r} is no name of a package")
    _trusted.add(package)


def trusted() -> set[str]:
    """The packages a `_target_` may come from."""
    named = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")}
    return _trusted | {name for name in named if name.isidentifier()} | {plugin.package for plugin in plugins()}


def allowed(target: str) -> bool:
    """Whether a config may name this class or function."""
    package, dot, rest = str(target).partition(".")
    return bool(dot) and all(part.isidentifier() for part in rest.split(".")) and package in trusted()


def refuse(target: str, what: str) -> None:
    """Raise where the package of a class is not trusted; nothing is imported."""
    package = target.partition(".")[0]
    if not allowed(target):
        raise ConfigError(
            f"{what} {target} is outside the allowed packages ({', '.join(sorted(trusted()))})",
            f"if you trust it: {VARIABLE}={package} in the environment, or spikelm.config.trust.trust({package!r})",
        )


def load(target: str, what: str, others: tuple[str, ...] = ()) -> Any:
    """The class that a `_target_` names, if it was made by a trusted package (or one of the `others`) itself.

    It has to be defined there: a module of ours that imports os does not lend it.
    """
    package = target.partition(".")[0]
    if package not in others:
        refuse(target, what)
    module, _, name = target.rpartition(".")
    try:
        loaded = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what} {target} cannot be imported: {error}") from error
    home = str(getattr(loaded, "__module__", "")).partition(".")[0]
    if home not in {*trusted(), *others}:
        raise ConfigError(f"{what} {target} is not of {package} itself, but of {home or 'elsewhere'}")
    return loaded


def refuse_targets(config: Any) -> None:
    """Raise where anything in a config, Hydra's part included, would make an object of a class that is not trusted."""
    for key, target in _targets(config, ""):
        load(str(target), f"{key}:", OF_HYDRA if key.startswith("hydra.") else ())


def _targets(node: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every `_target_`, and every class or factory, `()`, of a logging config, by its dotted key."""
    logs = where.startswith(("hydra.job_logging", "hydra.hydra_logging"))
    if isinstance(node, dict):
        for key, value in node.items():
            path = f"{where}.{key}" if where else str(key)
            if isinstance(value, str) and (key == "_target_" or (logs and key in ("()", "class"))):
                yield path, value
            else:
                yield from _targets(value, path)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _targets(value, f"{where}.{index}")
