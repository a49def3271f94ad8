"""The command that makes a run again, from its saved config: group choices first, then every value that differs."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spikelm.config.compose import load_config
from spikelm.config.plugins import config_files
from spikelm.config.recorded import to_record
from spikelm.config.schema import Config, config_dir
from spikelm.errors import SpikeLMError
from spikelm.report.query.settings import neuron_k, neuron_name, neuron_steps
from spikelm.runs.identity import READING, SAID
from spikelm.runs.labels import system_file, systems
from spikelm.store.hashing import digest

GROUPS = ("neuron", "weights", "backbone", "distill")  # named by their `name`, said only where a default is not it
#: what cannot change a result, and what is only said about it
IGNORED = ("tracker.", "force", "dry_run", "runs_dir", "source.mirror", "system")
KEPT = "trainer.precision"
PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./+-]*")
SECONDS = 10.0  # of CPU; composing a config takes some 0.2: what does not fit in comes with the next build


Settings = dict[str, Any]  # dotted keys of a config and their values, as overrides name them


class Commands:
    """Commands of many runs: configs that differ in values alone share one composition, kept in `bases`."""

    def __init__(self, bases: dict[str, Settings], seconds: float = SECONDS) -> None:
        self.bases = bases
        self._until = time.thread_time() + seconds

    @property
    def late(self) -> bool:
        """Whether the time for new compositions is over."""
        return time.thread_time() > self._until

    @staticmethod
    def version() -> str:
        """Of what `bases` are composed from: those of another version are of no use."""
        files = [*config_files(), Path(__file__)]
        return digest([[path.name, path.read_text(encoding="utf-8")] for path in sorted(files)])

    def command(self, config: Config) -> str | None:
        """The exact command, or None when there is no more time for it in this build."""
        try:
            words = self._words(config)
        except (SpikeLMError, AttributeError, KeyError, TypeError, ValueError):
            return ""  # of a neuron that is not installed here, say
        return None if words is None else " ".join(["spikelm-run", *map(shlex.quote, words)])

    def _words(self, config: Config) -> list[str] | None:
        wanted, chosen = settings(config), _choices(config)
        base = self._base(chosen)
        if base is None:
            return None
        others = [f"{group}={wanted[f'{group}.name']}" for group in GROUPS if _differs(base, wanted, f"{group}.name")]
        if others:
            chosen = [*chosen, *others]
            if (base := self._base(chosen)) is None:
                return None
        changed = [_word(key, value, key in base) for key, value in wanted.items() if _differs(base, wanted, key)]
        if base.get("teacher.seed") == base.get("seed") and wanted.get("teacher.seed") == wanted.get("seed"):
            changed = [word for word in changed if not word.startswith("teacher.seed=")]  # it follows the seed
        return [*chosen, *changed]

    def _base(self, chosen: Sequence[str]) -> Settings | None:
        key = " ".join(chosen)
        if key not in self.bases:
            if self.late:
                return None
            # Files that are elsewhere today must not keep a command from being told: any folder stands in for them.
            stand_in = [f"source.root={config_dir()}"] if "source=local" in chosen else []
            self.bases[key] = settings(load_config([*chosen, *stand_in]))
        return self.bases[key]


def rerun_command(config: Config) -> str:
    """The exact command of one run; empty where the config cannot be composed here."""
    return Commands({}, seconds=float("inf")).command(config) or ""


def settings(config: Config) -> Settings:
    """What of a config can be overridden and decides something."""
    return _flat(to_record(config))


def _flat(record: Mapping[str, Any], prefix: str = "") -> Settings:
    flat: Settings = {}
    for name, value in record.items():
        key = f"{prefix}{name}"
        if key.startswith(IGNORED) or (key.startswith("trainer.") and key != KEPT):
            continue
        if prefix in ("neuron.", "weights.") and name in SAID and name != "name":
            continue
        if prefix == "task." and name in READING:
            continue
        if isinstance(value, Mapping) and (value or prefix == ""):
            flat |= _flat(value, f"{key}.")
        else:
            flat[key] = value
    return flat


def _differs(base: Settings, wanted: Settings, key: str) -> bool:
    if key not in wanted:
        return False
    if key not in base:
        return wanted[key] not in (None, "", [], {})
    return bool(base[key] != wanted[key])


def _choices(config: Config) -> list[str]:
    """System or neuron, task, scale, source, T and k, as a person would write them."""
    system = system_file(config)
    words = [f"task={config.task.name}", f"system={system}" if system else f"neuron={neuron_name(config)}"]
    words += [f"scale={config.scale}", f"source={config.source.name}"]
    words += [f"recipe={config.recipe}"] if config.recipe else []
    own = systems()[system] if system else {}
    if neuron_steps(config) is not None and own.get("T") != config.T:
        words.append(_word("T", config.T, True))
    if neuron_k(config) is not None and config.k != own.get("k"):
        words.append(_word("k", config.k, True))
    return words


def _word(key: str, value: Any, known: bool) -> str:
    return f"{'' if known else '++'}{key}={_value(value)}"


def _value(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{_value(item)}" for name, item in value.items()) + "}"
    words = str(value)
    if PLAIN.fullmatch(words) and words.lower() not in ("null", "true", "false", "inf", "nan"):
        return words
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"
