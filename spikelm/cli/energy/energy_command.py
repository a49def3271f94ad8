"""spikelm-energy: the energy of one inference, term by term, without training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spikelm.cli.manual import Manual, ManualParser
from spikelm.cli.stores import add_runs_dir
from spikelm.errors import ConfigError

if TYPE_CHECKING:
    from spikelm.config.settings.schema import Config

DECODES = ("task=lm/embedded", "finetune.steps=1")  # what a decoder is composed for where no task is named

ENERGY = Manual(
    "spikelm-energy",
    "the energy of one inference: the card of any model, or a backbone's matmuls term by term",
    "With MODEL, forward passes are watched and a card is printed: operations, spikes, what stays real-valued, bytes "
    "moved, and what several estimators make of them, for this network, the plain model and its quantised twin. MODEL "
    "is a run, the folder of a saved model (with a config.json alone its weights are random), a name on the hub, or a "
    "function of yours that returns a model and its inputs.\n\n"
    "Without MODEL, the multiplications and additions of every matmul of a backbone are computed from its sizes, and "
    "what they cost in mJ at fp32 and fp16 (appendix A.3 of the paper). Softmax, norms and activations are not "
    "counted. No weights are needed: sizes and T come from the config, the firing rate from --rate. With --card such a "
    "model is made with random weights and watched.",
    {
        "spikelm-energy 3f2a": "the card of the run whose id begins with 3f2a, on its own samples",
        "spikelm-energy distilbert/ --text FILE": "of a saved model, on the first 128 tokens of a file",
        "spikelm-energy my_nets:snn T=8": "of what snn() of my_nets.py returns, which takes 8 time steps",
        "spikelm-energy backbone=bert_base T=4 --rate 0.34 --card": "of SpikeLM's BERT_base, spikes drawn at that rate",
        "spikelm-energy backbone=bert_base T=4 --rate 0.34": "SpikeLM's BERT_base at the firing rate that you measured",
        "spikelm-energy backbone=bart_base --length 512 --target 64 --beams 4": "a BART that writes with four beams",
        "spikelm-energy backbone=gpt2 T=4 --length 512": "a decoder that reads 512 tokens, one by one, with a cache",
    },
    read_more=("docs/guide/energy.md",),
)


def energy_main(argv: Sequence[str]) -> int:
    """Print the card of a model, or every term of a backbone's energy; overrides as for spikelm-run."""
    parser = ManualParser(ENERGY)
    parser.add_argument(
        "words", nargs="*", metavar="MODEL, or key=value", help="of MODEL: T=4; else as for spikelm-run"
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="RATE",
        help="firing rate of every site (default: 1, the ceiling, unless a value takes several spikes; of --card that "
        "of the config's own neurons on random tokens)",
    )
    parser.add_argument("--length", type=int, default=128, metavar="N", help="tokens read; of the source for BART")
    parser.add_argument("--target", type=int, default=64, metavar="N", help="tokens decoded by BART")
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="beams of BART")
    parser.add_argument("--card", action="store_true", help="watch the backbone with random weights")
    parser.add_argument("--estimators", action="store_true", help="of an encoder, what they make of its sizes and rate")
    parser.add_argument("--rows", type=int, metavar="N", help="texts of a card, or inputs in what a function gives")
    parser.add_argument("--text", type=Path, metavar="FILE", help="what a saved model reads (default: random tokens)")
    parser.add_argument("--blocks", action="store_true", help="the card's energy by block, too")
    parser.add_argument("--sites", action="store_true", help="the spikes of each site, too")
    parser.add_argument("--json", action="store_true", help="the card as JSON")
    add_runs_dir(parser)
    args = parser.parse_intermixed_args(argv)
    if args.rate is not None and not 0 <= args.rate < math.inf:
        raise ConfigError(f"--rate {args.rate:g} is not valid; a firing rate is a number of at least 0", "--rate 0.34")
    for name in ("length", "target", "beams", "rows"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)} is not valid; it is a whole number of at least 1")
    named = [word for word in args.words if "=" not in word]
    overrides = [word for word in args.words if "=" in word]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} are several models", f"spikelm-energy {named[0]}")
    if named or args.card:
        from spikelm.cli.energy.print_card import print_card

        return print_card(args, named[0] if named else "", overrides)
    if watched_only := [option for option in ("text", "blocks", "sites", "json") if getattr(args, option)]:
        raise ConfigError(f"--{watched_only[0]} is an option of a card", "spikelm-energy MODEL, or --card")
    rate = 1.0 if args.rate is None else args.rate
    from rich.console import Console

    from spikelm.catalog.energy import encoder_terms, lm_head_terms
    from spikelm.catalog.kinds import kind_of, plain_terms
    from spikelm.cli.energy.term_table import (
        print_decoder_energy,
        print_energy,
        print_expected,
        print_operators,
        print_seq2seq_energy,
        print_terms,
    )

    config = composed(overrides)
    size = config.backbone
    kind = kind_of(size)
    if kind.spiking:
        raise ConfigError(
            f"backbone.kind={size.kind} adds up spikes: its additions depend on every neuron's own rate",
            "spikelm-run measures them: see energy_mj of a result",
        )
    if not kind.plain and not kind.seq2seq and not kind.causal:
        raise ConfigError(
            f"backbone.kind={size.kind}: {kind.title} is not broken down by matmul",
            "the energy of a run is in its result",
        )
    console = Console()
    console.print(f"{size.name}: {size.layers} layers, hidden {size.hidden}, FFN {size.intermediate}")
    if kind.seq2seq:
        print_seq2seq_energy(size, args.length, args.target, args.beams, config.T, rate, console)
    elif kind.causal:
        print_decoder_energy(size, args.length, config.T, rate, console)
    elif kind.plain is encoder_terms:
        print_energy(size.layers, size.hidden, size.intermediate, args.length, config.T, rate, console)
        if args.estimators:
            print_expected(size, args.length, config.T, rate, console)
    else:
        title = (
            f"matmuls: {size.layers} layers, hidden {size.hidden}, ffn {size.intermediate}, length {args.length} (mJ)"
        )
        head = lm_head_terms(size.hidden, size.vocab, args.length)
        print_terms(title, plain_terms(size, args.length), head, config.T, rate, console)
    print_operators({group: spec.name for group, spec in config.operators.items()}, console)
    return 0


def composed(overrides: Sequence[str]) -> Config:
    """The config; energy asks for no task, so that a decoder, which the default task refuses, gets one of its own.

    Weights that are given would not be trained by that task, and then refuse neurons; here nothing is trained anyway.
    """
    from spikelm.config.compose import load_config

    try:
        return load_config(overrides)
    except ConfigError as refused:
        if any(word.startswith("task=") for word in overrides):
            raise
        try:
            config = load_config([*DECODES, *overrides])
        except ConfigError:
            raise refused from None
        if not config.kind.causal:
            raise
        return config
