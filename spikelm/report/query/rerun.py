"""The command that makes a run again, from its saved config: group choices first, then every value that differs."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.config.plugins import config_files
from spikelm.config.recorded import to_record
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.runs.labels import neuron_k
from spikelm.store.hashing import digest

SPECS = ("neuron", "weights", "attention", "norm")  # classes with arguments
GROUPS = (*SPECS, "backbone", "distill")  # named by their `name`, said only where a default is not it
#: what cannot change a result, and what is only said about it
IGNORED = ("tracker.", "force", "dry_run", "runs_dir", "source.mirror", "system")
KEPT = ("trainer.precision", "trainer.matmul", "trainer.compile")  # of the trainer: they can change last digits
PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./+-]*")
SECONDS = 10.0  # of CPU; composing a config takes some 0.03: what does not fit in comes with the next build


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
        return digest([[str(path), path.read_text(encoding="utf-8")] for path in sorted(files)])

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
            try:
                base = self._base([*chosen, *others])
            except ConfigError:  # a backbone of another kind here: the BERT that BERTSUMABS is pretrained as
                others = [word for word in others if not word.startswith("backbone=")]
                base = self._base([*chosen, *others])
            if base is None:
                return None
            chosen = [*chosen, *others]
        changed = _changes(base, wanted)
        if any(word.startswith("finetune.") for word in changed):  # a teacher follows it, unless it is told otherwise
            follows = self._base([*chosen, *changed])
            if follows is None:
                return None
            changed += [word for word in _changes(follows, wanted) if word not in changed]
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
        if key.startswith(IGNORED) or (key.startswith("trainer.") and key not in KEPT):
            continue
        if key.removeprefix("previous.") in SPECS:
            value = _overridable(value)
        if isinstance(value, Mapping) and (value or prefix == ""):
            flat |= _flat(value, f"{key}.")
        else:
            flat[key] = value
    return flat


def _overridable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded neuron, quantiser or operator with the keys of its YAML, without what only describes it."""
    place = {key: spec[key] for key in ("embeddings",) if key in spec and spec["target"]}
    return {
        "name": spec["name"],
        **({"_target_": spec["target"]} if spec["target"] else {}),
        **place,
        **spec["arguments"],
    }


def _composed(key: str, base: Mapping[str, Any]) -> bool:
    """Whether Hydra knows the key; those of a previous student are added by its YAML alone."""
    return key in base and not key.startswith("previous.")


def _differs(base: Mapping[str, Any], wanted: Mapping[str, Any], key: str) -> bool:
    if key not in wanted:
        return False
    if key not in base:
        return wanted[key] not in (None, "", [], {})
    return bool(base[key] != wanted[key])


def _choices(config: Config) -> list[str]:
    """System or neuron, task, scale, source, T and k, as a person would write them."""
    system = config.system.name
    words = [f"task={config.task.name}", f"system={system}" if system else f"neuron={config.neuron.name}"]
    words += [f"scale={config.scale}", f"source={config.source.name}"]
    words += [f"recipe={config.recipe}"] if config.recipe else []
    words += [f"convert={config.convert.mode}"] if config.convert.mode != "none" else []
    if not system and config.spiking:
        words.append(_word("T", config.T, True))
    if not system and neuron_k(config) is not None:
        words.append(_word("k", config.k, True))
    return words


def _changes(base: Settings, wanted: Settings) -> list[str]:
    """What differs, as overrides."""
    return [_word(key, value, _composed(key, base)) for key, value in wanted.items() if _differs(base, wanted, key)]


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
