"""What a field of the config says about itself: which values it may have, and which results it decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from typing import Any, get_type_hints

from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError
from spikelm.rules import Rule

PRETRAINING, GENERAL, FINE_TUNING = "pretraining", "general distillation", "fine-tuning"
EVERY_RUN = frozenset({PRETRAINING, GENERAL, FINE_TUNING})
NO_RUN: frozenset[str] = frozenset()  # where files are, how a run is shown: nothing that changes a result
OF_TYPE = {bool: Rule(flag=True), int: Rule(whole=True), float: Rule()}
LEFT_OUT = object()  # a value that counts as this is not written into an id at all


def setting(
    default: Any = MISSING,
    rule: Rule | None = None,
    decides: Iterable[str] = EVERY_RUN,
    counts_as: Mapping[Any, Any] | None = None,
) -> Any:
    """A field of a config: its default (a list or mapping is copied), its rule, and the kinds of run it decides.

    `counts_as` says how some values are written into an id. A field that came later counts its default as LEFT_OUT,
    so that the runs from before it keep their ids.
    """
    metadata = {"rule": rule, "decides": frozenset(decides), "counts_as": counts_as or {}}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def check_fields(node: Any, where: str = "") -> None:
    """Check every field below `node` against its rule; raises a ConfigError that says what is valid."""
    for item in fields(node):
        value, key = getattr(node, item.name), f"{where}{item.name}"
        if is_dataclass(value):
            check_fields(value, f"{key}.")
            continue
        rule: Rule | None = item.metadata.get("rule")
        if rule is not None and not rule.allows(value):
            raise ConfigError(not_valid(key, value, rule))
        _check_finite(value, key)


def not_valid(key: str, value: Any, rule: Rule) -> str:
    """The message for a value that breaks its rule, with the nearest choice where there are choices."""
    if rule.choices:
        return f"{key}={value} is not valid{nearest(str(value), [str(choice) for choice in rule.choices])}"
    return f"{key}={value} is not valid; it is {rule}"


def rule_of(schema: type, key: str) -> Rule | None:
    """What the field with a dotted key may be: its rule, else what its type says; None where there is no such field."""
    name, _, rest = key.partition(".")
    item = next((item for item in fields(schema) if item.name == name), None)
    if item is None:
        return None
    kind = get_type_hints(schema)[name]
    if rest:
        return rule_of(kind, rest) if is_dataclass(kind) and isinstance(kind, type) else None
    return item.metadata.get("rule") or OF_TYPE.get(kind)


def _check_finite(value: Any, key: str) -> None:
    """Every number of a config is finite: anything else can be neither compared, recorded nor trained with."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}={value} is not valid; it is a finite number")
    if isinstance(value, Mapping):
        for name, inside in value.items():
            _check_finite(inside, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for position, inside in enumerate(value):
            _check_finite(inside, f"{key}.{position}")


def decided(node: Any, run: str) -> dict[str, Any]:
    """The fields below `node` that decide the result of a kind of run, as plain data."""
    record: dict[str, Any] = {}
    for item in fields(node):
        if run not in item.metadata.get("decides", EVERY_RUN):
            continue
        value = getattr(node, item.name)
        if is_dataclass(value):
            record[item.name] = decided(value, run)
            continue
        counts_as = item.metadata.get("counts_as", {})
        value = counts_as.get(value, value) if counts_as else value
        if value is not LEFT_OUT:
            record[item.name] = value
    return record
