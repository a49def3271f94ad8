"""Packages that add neurons, tasks and systems from outside, by the entry point `spikelm.plugins`.

docs/guide/extend.md walks through one.
Nothing of a plugin is imported here: its options are read from its conf/, its classes when a config names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import yaml

from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError

GROUP = "spikelm.plugins"
#: groups of conf/ whose options may come from outside
OPEN = (
    "at",
    "attention",
    "backbone",
    "distill",
    "neuron",
    "norm",
    "scale",
    "source",
    "system",
    "task",
    "trainer",
    "weights",
)


@dataclass(frozen=True)
class Plugin:
    """An installed package that says it extends spikelm, and the folder of its options."""

    package: str
    folder: Path

    @property
    def conf(self) -> Path:
        """Its groups of options, laid out as ours."""
        return self.folder / "conf"


@lru_cache(maxsize=1)
def plugins() -> tuple[Plugin, ...]:
    """The installed plugins, by name; an option that is there already is refused: a name means one thing."""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: point.value)
    installed = tuple(_located(package) for package in dict.fromkeys(point.value for point in points))
    homes = dict.fromkeys(_names(config_dir()), "spikelm")
    for plugin in installed:
        for name in _names(plugin.conf):
            if name in homes:
                raise ConfigError(
                    f"plugin {plugin.package}: conf/{name} is in {homes[name]} already",
                    f"rename it in {plugin.conf}, or pip uninstall the package",
                )
            if name.partition("/")[0] not in OPEN:
                raise ConfigError(f"plugin {plugin.package}: conf/{name} is in none of the groups {', '.join(OPEN)}")
            homes[name] = plugin.package
    return installed


def _located(package: str) -> Plugin:
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the entry point {GROUP} of an installed package names {package!r}, which is no package",
            f'[project.entry-points."{GROUP}"] NAME = "my_package" in its pyproject.toml, then install it again',
        )
    return Plugin(package, Path(next(iter(spec.submodule_search_locations))))


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml"))


def config_dirs() -> list[Path]:
    """conf/, and that of each plugin."""
    return [config_dir(), *(plugin.conf for plugin in plugins() if plugin.conf.is_dir())]


def config_files(group: str = "") -> list[Path]:
    """All options of a group, or of all of them, ours first."""
    return [path for folder in config_dirs() for path in sorted((folder / group).rglob("*.yaml"))]


def option_names(group: str) -> list[str]:
    """What a person may say after `group=`; files in a folder `at` are chosen by the scale."""
    folders = [folder / group for folder in config_dirs()]
    names = [name.removesuffix(".yaml") for folder in folders for name in _names(folder)]
    return [name for name in names if not name.startswith("at/")]


def option_file(group: str, name: str) -> Path | None:
    """The file of one option."""
    files = (folder / group / f"{name}.yaml" for folder in config_dirs())
    return next((path for path in files if path.is_file()), None)


def rounding_neurons() -> frozenset[str]:
    """Classes of neurons whose levels are no spikes, by what their options in conf/neuron say: `spikes: false`."""
    files = (option_file("neuron", name) for name in option_names("neuron"))
    options = [yaml.safe_load(path.read_text()) or {} for path in files if path]
    return frozenset(option["_target_"] for option in options if "_target_" in option and option.get("spikes") is False)


def package_dir(package: str) -> str:
    """The folder of a plugin, for the paths in its options: ${package_dir:my_package}/data."""
    for plugin in plugins():
        if plugin.package == package:
            return str(plugin.folder)
    raise ValueError(f"no plugin {package} is installed")
