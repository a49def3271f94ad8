"""spikelm-energy: the energy of one inference, term by term, without training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spikelm.errors import ConfigError


def energy_main(argv: Sequence[str]) -> int:
    """Print every term of a backbone's energy; overrides as for spikelm-run."""
    parser = argparse.ArgumentParser(
        prog="spikelm-energy",
        description="Energy of one inference, term by term, without training (paper appendix A.3).",
        epilog="example: spikelm-energy backbone=bert_base T=4 --rate 0.34",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for spikelm-run: backbone=bert_base T=4")
    parser.add_argument("--rate", type=float, default=1.0, help="firing rate of every site (default 1: the ceiling)")
    parser.add_argument("--length", type=int, default=128, help="tokens (default 128); of the source for BART")
    parser.add_argument("--target", type=int, default=64, help="tokens decoded by BART (default 64)")
    parser.add_argument("--beams", type=int, default=1, help="beams of BART (default 1)")
    args = parser.parse_args(argv)
    if not 0 <= args.rate <= 1:
        raise ConfigError(f"--rate {args.rate}: a firing rate lies between 0 and 1")
    from rich.console import Console

    from spikelm.catalog.energy import encoder_terms, lm_head_terms
    from spikelm.catalog.kinds import kind_of, plain_terms
    from spikelm.cli.energy_table import print_energy, print_seq2seq_energy, print_terms
    from spikelm.config.compose import load_config

    config = load_config(args.overrides)
    size = config.backbone
    kind = kind_of(size)
    if kind.spiking:
        raise ConfigError(
            f"backbone.kind={size.kind} adds up spikes: its additions depend on every neuron's own rate",
            "spikelm-run measures them: see energy_mj of a result",
        )
    if not kind.plain and not kind.seq2seq:
        raise ConfigError(
            f"backbone.kind={size.kind}: {kind.title} is not broken down by matmul",
            "the energy of a run is in its result",
        )
    console = Console()
    console.print(f"{size.name}: {size.layers} layers, hidden {size.hidden}, FFN {size.intermediate}")
    if kind.seq2seq:
        print_seq2seq_energy(size, args.length, args.target, args.beams, config.T, args.rate, console)
    elif kind.plain is encoder_terms:
        print_energy(size.layers, size.hidden, size.intermediate, args.length, config.T, args.rate, console)
    else:
        title = (
            f"matmuls: {size.layers} layers, hidden {size.hidden}, ffn {size.intermediate}, length {args.length} (mJ)"
        )
        head = lm_head_terms(size.hidden, size.vocab, args.length)
        print_terms(title, plain_terms(size, args.length), head, config.T, args.rate, console)
    return 0
