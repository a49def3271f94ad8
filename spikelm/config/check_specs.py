"""Checks of neurons, quantisers and operators: the class is of a trusted package and takes each of the arguments."""

from __future__ import annotations

import re
from pathlib import Path

from spikelm.config import trust
from spikelm.config.class_rules import rules_of
from spikelm.config.plugins import option_file, option_names
from spikelm.config.settings.specs import ClassSpec, NeuronSpec, OperatorSpec, QuantizerSpec
from spikelm.config.suggestions import either, nearest
from spikelm.errors import ConfigError
from spikelm.rules import Rule

SPIKES = Rule(flag=True)
TERNARY = re.compile(r"([1-9]\d* x )?ter")  # one ternary value, or several whose sum is read
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


def check_operator(spec: OperatorSpec, group: str) -> None:
    """Raise a ConfigError that names the key, its value and what is valid."""
    check_arguments(spec, group)


def _check_bits(bits: int | str, group: str) -> None:
    if not (isinstance(bits, str) and TERNARY.fullmatch(bits)) and not Rule(whole=True, least=1).allows(bits):
        raise ConfigError(f"{group}.bits={bits} is not valid; valid: ter, 2 x ter, or a whole number of at least 1")


def check_arguments(spec: ClassSpec, group: str) -> None:
    """Raise a ConfigError where the class is not trusted, has no such argument, or refuses its value."""
    if spec:
        trust.refuse(str(spec.target), f"{group} class")
    rules = rules_of(spec.target) if spec else {}
    for key, value in spec.arguments.items():
        if key not in rules:
            raise _not_an_argument(spec, group, key, list(rules))
        _check_value(f"{group}.{key}", value, rules[key])


def _not_an_argument(spec: ClassSpec, group: str, key: str, arguments: list[str]) -> ConfigError:
    """An argument that the class does not take: whose it is, or what was meant."""
    option = group.rpartition(".")[2]
    having = [name for name in option_names(option) if _names(option_file(option, name), key)]
    if not having:
        return ConfigError(f"unknown key {group}.{key}{nearest(f'{group}.{key}', [f'{group}.{a}' for a in arguments])}")
    takes = f"takes {', '.join(arguments)}" if arguments else "takes no arguments"
    return ConfigError(
        f"unknown key {group}.{key}; {option}={getattr(spec, 'name', spec.target)} {takes}",
        f"{option}={either(having)} has {key}",
    )


def _names(option: Path | None, key: str) -> bool:
    """Whether the file of an option has a line for a key."""
    return option is not None and f"\n{key}:" in option.read_text(encoding="utf-8")


def _check_value(key: str, value: object, rule: Rule) -> None:
    if not rule.allows(value):
        raise ConfigError(f"{key}={value} is not valid; valid: {rule}")
