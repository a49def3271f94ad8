"""spikelm-energy MODEL: the energy card of a run, of a saved model, or of any torch module."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from spikelm.cli.energy.card_table import (
    print_besides,
    print_blocks,
    print_counts,
    print_estimates,
    print_measured,
    print_sites,
    print_traffic,
)
from spikelm.cli.energy.energy_command import composed
from spikelm.cli.energy.subject import Subject, Texts, sized_subject, subject_of
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.measure.card import EnergyCard, energy_card
from spikelm.measure.measured_cost import measured_cost


def print_card(args: argparse.Namespace, name: str, overrides: Sequence[str]) -> int:
    """Make the card of what the command line names, and print it."""
    texts = Texts(args.length, args.rows, args.text)
    if name:
        subject = subject_of(name, texts, _steps(overrides), args.runs_dir)
    else:
        config: Config = composed(overrides)
        subject = sized_subject(config, texts, args.rate)
    card = energy_card(subject.model, subject.batches, subject.T, rows=subject.rows, inputs=subject.inputs)
    listed = subject.batches if isinstance(subject.batches, list) else []
    first = listed[0] if listed else subject.batches
    rows = len(next(iter(listed[0].values()))) if listed else card.counts.rows
    cost = measured_cost(subject.model, first, rows, card.counts)
    if args.json:
        print(json.dumps({"model": subject.name, **card.to_dict(), "measured": asdict(cost)}, indent=1))
        return 0
    show_card(subject, card, args)
    print_measured(cost, Console())
    return 0


def show_card(subject: Subject, card: EnergyCard, args: argparse.Namespace) -> None:
    """Counts first, then what is modelled, then what was measured."""
    console, counts = Console(), card.counts
    print_counts(subject.name, subject.inputs, counts, console)
    print_besides(counts, console)
    if args.sites:
        print_sites(counts, console)
    print_traffic(counts, console)
    print_estimates(card.estimates, counts.spiking, console)
    if args.blocks:
        print_blocks(counts, console)


def _steps(overrides: Sequence[str]) -> int | None:
    """T of a model that does not say it itself."""
    steps = None
    for word in overrides:
        key, _, value = word.partition("=")
        if key != "T" or not value.isdigit() or int(value) < 1:
            raise ConfigError(f"{word}: a model that is there has its settings; only T can be given", "T=4")
        steps = int(value)
    return steps
