"""Checks of neurons and quantisers: their class is of a trusted package, and each argument is what the class takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from spikelm.config import trust
from spikelm.config.class_rules import rules_of
from spikelm.config.settings.specs import ClassSpec, NeuronSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.rules import Rule

SPIKES = Rule(flag=True)
EMBEDDINGS = Rule(choices=("none", "tensor", "rows"))


def check_neuron(spec: NeuronSpec, group: str) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    _check_value(f"{group}.spikes", spec.spikes, SPIKES)
    _check_bits(spec.bits, group)
    check_arguments(spec, group)


def check_quantizer(spec: QuantizerSpec, group: str) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    _check_value(f"{group}.embeddings", spec.embeddings, EMBEDDINGS)
    _check_bits(spec.bits, group)
    check_arguments(spec, group)


def _check_bits(bits: int | str, group: str) -> None:
    if bits != "ter" and not Rule(whole=True, least=1).allows(bits):
        raise ConfigError(f"{group}.bits={bits} is not valid; valid: ter, or a whole number of at least 1")


def check_arguments(spec: ClassSpec, group: str) -> None:
    """Raise a ConfigError where the class is not trusted, has no such argument, or refuses its value."""
    if spec:
        trust.refuse(str(spec.target), f"{group} class")
    rules = rules_of(spec.target) if spec else {}
    for key, value in spec.arguments.items():
        if key not in rules:
            raise ConfigError(f"unknown key {group}.{key}; {_meant(key, rules, group)}")
        _check_value(f"{group}.{key}", value, rules[key])


def _meant(key: str, rules: Iterable[str], group: str) -> str:
    """The argument that was probably meant, else all of them."""
    if close := difflib.get_close_matches(key, rules, n=1):
        return f"did you mean {group}.{close[0]}?"
    return f"valid: {', '.join(f'{group}.{name}' for name in rules) or 'none, it takes no arguments'}"


def _check_value(key: str, value: object, rule: Rule) -> None:
    if not rule.allows(value):
        raise ConfigError(f"{key}={value} is not valid; valid: {rule}")
