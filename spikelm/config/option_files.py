"""What the files of conf/ and of the plugins say together, without Hydra's own part.

A report names hundreds of runs. Hydra takes a tenth of a second to compose one: it reads every file anew, composes its
own settings besides ours, and copies the whole tree at each merge. Here Hydra still says which files count, in which
order, and what an override means; what the files say is merged as plain mappings and set on the schema once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import create_config_search_path
from hydra.core.default_element import GroupDefault, InputDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, ListConfig, OmegaConf

from spikelm.config.paths import config_dir, default_runs_dir
from spikelm.config.plugins import config_dirs
from spikelm.config.settings.schema import structured

PRIMARY, SCHEMA, MISSING = "config", "schema", "???"


class NotPlain(Exception):
    """Words or files that say more than values: Hydra composes them itself."""


def compose_plain(overrides: Sequence[str]) -> DictConfig:
    """What Hydra composes of overrides that choose options and set values; any error means that it has to be asked."""
    words = OverridesParser.create().parse_overrides(list(overrides))
    if not all(map(_is_plain, words)):
        raise NotPlain
    files = _option_files(tuple(map(str, config_dirs())))
    chosen = create_defaults_list(files, PRIMARY, words, prepend_hydra=False, skip_missing=False)
    tree: dict[str, Any] = {}
    for one in chosen.defaults:
        said = files.said(one.config_path or "")
        for part in reversed(one.package.split(".") if one.package else []):
            said = {part: said}
        _merge(tree, said)
    if "hydra" in tree:
        raise NotPlain
    cfg: DictConfig = pickle.loads(_pickled_schema(default_runs_dir()))
    _set(cfg, tree)
    OmegaConf.set_struct(cfg, True)
    ConfigLoaderImpl._apply_overrides_to_config(chosen.config_overrides, cfg)
    return cfg


def _is_plain(word: Override) -> bool:
    """Whether it chooses an option or sets a value of ours: it neither adds nor deletes nor sweeps."""
    sets = not (word.is_add() or word.is_force_add() or word.is_delete() or word.is_sweep_override())
    return sets and not word.is_hydra_override() and word.value() != MISSING


class _File(NamedTuple):
    """A file as Hydra read it, the mapping in it, and what the system says of the file while it is the same one."""

    path: str
    facts: tuple[int, ...]
    loaded: ConfigResult
    said: dict[str, Any]


class OptionFiles(ConfigRepository):
    """The files among which groups choose, each read again only after a change."""

    def __init__(self) -> None:
        super().__init__(create_config_search_path(str(config_dir())))
        self._files: dict[str, _File] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """A file with its defaults list; the main one without what it says about Hydra."""
        known = self._files.get(config_path)
        if known and known.facts == _facts(known.path):
            return known.loaded
        loaded = super().load_config(config_path)
        if loaded is not None:
            said: Any = {} if config_path == SCHEMA else OmegaConf.to_container(loaded.config, resolve=False)
            if config_path == PRIMARY:
                said.pop("hydra", None)
                loaded.defaults_list = [one for one in loaded.defaults_list or [] if not _of_hydra(one)]
            path = os.path.join(loaded.path.partition("://")[2], f"{config_path}.yaml")
            self._files[config_path] = _File(path, _facts(path), loaded, said)
        return loaded

    def said(self, config_path: str) -> dict[str, Any]:
        """What a file says, without its defaults list; the schema is where it is set, and says nothing itself."""
        return self._files[config_path].said


@lru_cache(maxsize=4)
def _option_files(folders: tuple[str, ...]) -> OptionFiles:
    """For the folders of options there are: another plugin makes another one."""
    return OptionFiles()


@lru_cache(maxsize=1)
def _pickled_schema(runs_dir: str) -> bytes:
    """The schema to copy from: unpickling takes a fifth of the time of a deep copy."""
    return pickle.dumps(structured(runs_dir), pickle.HIGHEST_PROTOCOL)


def _facts(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:  # the schema is no file
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _of_hydra(default: InputDefault) -> bool:
    return isinstance(default, GroupDefault) and (default.group or "").startswith("hydra/")


def _merge(tree: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Mappings are merged, everything else is replaced; a value that is still missing replaces nothing."""
    for key, value in said.items():
        if isinstance(value, dict):
            inner = tree.setdefault(key, {})
            if not isinstance(inner, dict):  # an interpolation or null, on which OmegaConf has rules of its own
                raise NotPlain
            _merge(inner, value)
        elif value != MISSING or key not in tree:
            tree[key] = value


def _set(node: DictConfig, tree: Mapping[str, Any]) -> None:
    """Give the schema the values of a tree; OmegaConf converts each to the type of its field."""
    for key, value in tree.items():
        inner = node._get_node(key)
        if isinstance(value, dict) and isinstance(inner, DictConfig) and not inner._is_none():
            _set(inner, value)
        elif isinstance(value, list) and isinstance(inner, ListConfig):
            inner.merge_with(value)  # its mappings become what the schema has in the list
        elif value != MISSING:
            node[key] = value
