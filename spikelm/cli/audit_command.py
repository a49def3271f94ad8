"""spikelm-audit RUN: which matmuls of a finished run are spike-driven."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from spikelm.catalog.kinds import KINDS
from spikelm.cli.find_run import RUN, find_result, weights_of
from spikelm.cli.stores import add_runs_dir
from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError


def audit_main(argv: Sequence[str]) -> int:
    """Audit a finished run's model on its own measurement samples."""
    parser = argparse.ArgumentParser(
        prog="spikelm-audit",
        description="Which matrix multiplications of a finished run are spike-driven, seen in a real forward pass.",
    )
    parser.add_argument("run", help=RUN)
    add_runs_dir(parser)
    args = parser.parse_args(argv)
    found, result = find_result(args.run, args.runs_dir)
    print(found)
    config = replace(result.config, runs_dir=default_runs_dir())  # its samples are tokenised in the user's own store
    kind = config.backbone.kind
    if KINDS[kind].neuron == "plain":
        raise ConfigError(
            f"backbone.kind={kind}: {KINDS[kind].title} has no neurons: nothing of it is spike-driven",
            "a run of a spiking system",
        )
    weights = weights_of(found, result)
    from rich.console import Console

    from spikelm.cli.audit_table import print_audit
    from spikelm.measure.audit import audit
    from spikelm.measure.trained_model import audit_rows
    from spikelm.spiking import load_pretrained
    from spikelm.training.fit import quiet_libraries
    from spikelm.training.samples import measurement_samples

    quiet_libraries()
    console = Console()
    model = load_pretrained(weights)
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
