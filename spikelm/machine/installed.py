"""The libraries that are installed, against the versions that constraints.txt pins and those that the package needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class Difference:
    """A library whose version is not the one that was wanted; None: it is not installed."""

    library: str
    wanted: str
    installed: str | None


def differences(constraints: Path) -> list[Difference]:
    """The pinned libraries that are installed in another version; one that is not installed may not be needed."""
    others = []
    for library, wanted in re.findall(r"^([\w.-]+)==([^\s;#]+)", constraints.read_text(), re.MULTILINE):
        installed = version_of(library)
        if installed is not None and installed.partition("+")[0] != wanted:  # +cpu and +cu126 are the same version
            others.append(Difference(library, wanted, installed))
    return others


def unmet(package: str) -> list[Difference]:
    """The requirements of an installed package, extras left out, that are missing or too old."""
    others = []
    try:
        required = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []
    for line in required:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        installed = version_of(requirement.name)
        if installed is None or not requirement.specifier.contains(installed, prereleases=True):
            others.append(Difference(requirement.name, str(requirement.specifier), installed))
    return others


def install_command(package: str) -> str:
    """What installs a package that is not there: the extra of ours that brings it, where there is one."""
    try:
        required = [Requirement(line) for line in metadata.requires("spikelm") or []]
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        required = []
    for requirement in required:
        extra = re.search(r"extra == ['\"](\w+)['\"]", str(requirement.marker or ""))
        if extra and canonicalize_name(requirement.name) == canonicalize_name(package) and extra[1] != "dev":
            return f'pip install "spikelm[{extra[1]}]"'
    return f"pip install {package}"


def version_of(library: str) -> str | None:
    """The installed version of a library."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
