"""spikelm-energy: the energy of one inference, term by term, without training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spikelm.cli.manual import Manual, ManualParser
from spikelm.errors import ConfigError

if TYPE_CHECKING:
    from spikelm.config.settings.schema import Config

ENERGY = Manual(
    "spikelm-energy",
    "the energy of one inference, term by term, without training",
    "Counts the multiplications and additions of every matmul of a backbone, and what they cost in mJ at fp32 and fp16 "
    "(appendix A.3 of the paper). Softmax, norms and activations are not counted. Nothing is trained and no weights "
    "are needed: sizes and T come from the config, the firing rate from --rate.",
    {
        "spikelm-energy backbone=bert_base T=4 --rate 0.34": "SpikeLM's BERT_base at the firing rate that you measured",
        "spikelm-energy backbone=bart_base --length 512 --target 64 --beams 4": "a BART that writes with four beams",
        "spikelm-energy backbone=gpt2 T=4 --length 512": "a decoder that reads 512 tokens, one by one, with a cache",
    },
    read_more=("docs/internals/result.md",),
)


def energy_main(argv: Sequence[str]) -> int:
    """Print every term of a backbone's energy; overrides as for spikelm-run."""
    parser = ManualParser(ENERGY)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for spikelm-run: backbone=bert_base T=4")
    parser.add_argument(
        "--rate",
        type=float,
        default=1.0,
        metavar="RATE",
        help="firing rate of every site; 1 is the ceiling, unless a value takes several spikes: then spikes a value",
    )
    parser.add_argument("--length", type=int, default=128, metavar="N", help="tokens read; of the source for BART")
    parser.add_argument("--target", type=int, default=64, metavar="N", help="tokens decoded by BART")
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="beams of BART")
    args = parser.parse_intermixed_args(argv)
    if not 0 <= args.rate < math.inf:
        raise ConfigError(f"--rate {args.rate:g} is not valid; a firing rate is a number of at least 0", "--rate 0.34")
    for name in ("length", "target", "beams"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)} is not valid; it is a whole number of at least 1")
    from rich.console import Console

    from spikelm.catalog.energy import encoder_terms, lm_head_terms
    from spikelm.catalog.kinds import kind_of, plain_terms
    from spikelm.cli.energy_table import (
        print_decoder_energy,
        print_energy,
        print_operators,
        print_seq2seq_energy,
        print_terms,
    )

    config = _composed(args.overrides)
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
        print_seq2seq_energy(size, args.length, args.target, args.beams, config.T, args.rate, console)
    elif kind.causal:
        print_decoder_energy(size, args.length, config.T, args.rate, console)
    elif kind.plain is encoder_terms:
        print_energy(size.layers, size.hidden, size.intermediate, args.length, config.T, args.rate, console)
    else:
        title = (
            f"matmuls: {size.layers} layers, hidden {size.hidden}, ffn {size.intermediate}, length {args.length} (mJ)"
        )
        head = lm_head_terms(size.hidden, size.vocab, args.length)
        print_terms(title, plain_terms(size, args.length), head, config.T, args.rate, console)
    print_operators({group: spec.name for group, spec in config.operators.items()}, console)
    return 0


def _composed(overrides: Sequence[str]) -> Config:
    """The config; energy asks for no task, so that a decoder, which the default task refuses, gets one of its own."""
    from spikelm.config.compose import load_config

    try:
        return load_config(overrides)
    except ConfigError as refused:
        if any(word.startswith("task=") for word in overrides):
            raise
        try:
            config = load_config(["task=lm/embedded", *overrides])
        except ConfigError:
            raise refused from None
        if not config.kind.causal:
            raise
        return config
