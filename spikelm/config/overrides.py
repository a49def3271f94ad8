"""Overrides of a command line, and the values that a sweep gives them."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException

from spikelm.errors import ConfigError


def variants(overrides: Sequence[str], multirun: bool) -> list[list[str]]:
    """The first value of every sweep together, then each other value once: their sum, not their product."""
    parsed = _parsed(overrides)
    choices = [_values(override) for override in parsed]
    swept = [override for override in parsed if override.is_sweep_override()]
    if swept and not multirun:
        name = swept[0].get_key_element()
        raise ConfigError(f"{swept[0].input_line} names several values of {name}", "add -m for a sweep")
    first = [values[0] for values in choices]
    combinations = [first]
    for position, values in enumerate(choices):
        combinations += [[*first[:position], value, *first[position + 1 :]] for value in values[1:]]
    return combinations


def sweep_values(overrides: Sequence[str]) -> list[list[str]]:
    """For each override of a sweep the overrides it stands for: task=a,b is task=a and task=b."""
    return [_values(override) for override in _parsed(overrides)]


def _parsed(overrides: Sequence[str]) -> list[Override]:
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override!r} is not an override", "write key=value, group=option") from error


def _values(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.input_line or ""]
    key = override.get_key_element()
    try:
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:  # interval() and glob() are for sweepers that search
        raise ConfigError(f"{override.input_line} names no list of values", f"{key}=a,b or {key}=range(1,4)") from error
