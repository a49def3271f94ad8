"""spikelm-energy and spikelm-audit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from spikelm.catalog.kinds import KINDS
from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError, SpikeLMError

if TYPE_CHECKING:
    from spikelm.store.result import Result


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
        _refuse_plain(size.kind, "the energy of a run is in its result")
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


def audit_main(argv: Sequence[str]) -> int:
    """Audit a finished run's model on its own measurement samples."""
    parser = argparse.ArgumentParser(
        prog="spikelm-audit",
        description="Which matrix multiplications of a finished run are spike-driven, seen in a real forward pass.",
    )
    parser.add_argument("run", help="a run directory, or the first digits of a run id")
    parser.add_argument("--runs-dir", default=default_runs_dir())
    args = parser.parse_args(argv)
    result, directory = find_result(args.run, Path(args.runs_dir))
    config = result.config
    kind = config.backbone.kind
    if KINDS[kind].neuron == "plain":
        _refuse_plain(kind, "it has no neurons: nothing of it is spike-driven")
    from rich.console import Console

    from spikelm.cli.audit_table import print_audit
    from spikelm.measure.audit import audit
    from spikelm.measure.trained_model import audit_rows
    from spikelm.spiking import load_pretrained
    from spikelm.training.fit import quiet_libraries
    from spikelm.training.samples import measurement_samples

    quiet_libraries()
    console = Console()
    model = load_pretrained(directory / "model")
    config = result.config
    samples, T = measurement_samples(config), config.time_steps
    report, verdict = audit(model, audit_rows(samples), T), result.spike_driven
    print_audit(report, console)
    same = report.verdict == verdict.verdict
    if config.task.kind == "seq2seq":
        from spikelm.measure.generated_text import audit_decoding
        from spikelm.training.seq2seq import generate_options

        console.print("The same while generating from the cache:", highlight=False)
        decoding = audit_decoding(model, samples[0], T, generate_options(config.task.generate))
        print_audit(decoding, console)
        same = same and decoding.verdict == verdict.decoding
    return 0 if same else 1


def _refuse_plain(kind: str, why: str) -> NoReturn:
    """The tables of matmuls know BERT, BART and what is made of them."""
    raise ConfigError(f"backbone.kind={kind}: {KINDS[kind].title} is not broken down by matmul; {why}")


def find_result(name: str, root: Path) -> tuple[Result, Path]:
    """A finished result by run directory or by the first digits of its id."""
    from spikelm.store.store import Store

    wanted = Path(name).absolute()
    digits = name.rstrip("/").rpartition("-")[2]
    store = Store(wanted.parent.parent if wanted.is_dir() else root)
    found = [run for run in store.runs() if run.directory == wanted or run.id.startswith(digits)]
    if not found:
        raise SpikeLMError(f"no run {name} under {store.root}", "spikelm-report lists the runs")
    result = found[0].result()
    if result is None:
        raise SpikeLMError(
            f"run {name} is not finished ({found[0].state})", "run it again: it goes on where it stopped"
        )
    return result, found[0].directory
