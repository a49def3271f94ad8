"""spikelm-audit RUN: which matmuls of a finished run are spike-driven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spikelm.catalog.kinds import KINDS
from spikelm.catalog.quantities import rate_text
from spikelm.cli.find_run import find_result, weights_of
from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import RUN, add_runs_dir
from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from spikelm.measure.audit import AuditReport
    from spikelm.measure.watch import Row

#: blocks that stand in no module called encoder or decoder are those of a decoder
SPOKEN = dict.fromkeys(("layers", "h", "blocks"), "decoder")

AUDIT = Manual(
    "spikelm-audit",
    "which matmuls of a finished run are spike-driven",
    "Loads the model of a finished run and looks at every matrix multiplication of a real forward pass: where one side "
    "is spikes, additions are enough. The other operators are listed below the table, with those that remain "
    "real-valued. The verdict is compared with the one in the run's result.",
    {"spikelm-audit 3f2a": "the run whose id begins with 3f2a; spikelm-report lists the ids"},
    {
        0: "the verdict is that of the result",
        1: "it is another one, or the run is not finished, or its weights are gone",
        2: f"{MISTAKE}; or no such run",
    },
    ("docs/internals/result.md",),
)


def audit_main(argv: Sequence[str]) -> int:
    """Audit a finished run's model on its own measurement samples."""
    parser = ManualParser(AUDIT)
    parser.add_argument("run", metavar="RUN", help=RUN)
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
    if verdict.decoding is not None:
        from spikelm.measure.generated_text import audit_decoding, audit_going_on, generate_options

        console.print("The same while generating from the cache:", highlight=False)
        if config.task.kind == "seq2seq":
            decoding = audit_decoding(model, samples[0], T, generate_options(config.task.generate))
        else:
            decoding = audit_going_on(model, samples[0], T)
        print_audit(decoding, console)
        same = same and decoding.verdict == verdict.decoding
    return 0 if same else 1


def print_audit(report: AuditReport, console: Console) -> None:
    """A table with the equal matmuls of all layers in one line."""
    from rich import box
    from rich.table import Table

    from spikelm.measure.audit import any_layer

    extent = "not" if report.verdict == "none" else report.verdict
    where = " and ".join(SPOKEN.get(part, part) for part in report.parts)
    title = f"Spike audit, T={report.T}: the {where} {'is' if len(report.parts) == 1 else 'are'} {extent} spike-driven"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("module", overflow="fold")
    for heading in ("matmul", "spikes"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rate", "MMAC"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in ("encoder", "neuron", "outside"):
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in report.rows:
            if row.part == part:
                groups.setdefault((any_layer(row.module), row.kind), []).append(row)
        table.add_section()
        for key, rows in groups.items():
            table.add_row(*key, *_group_cells(rows))
    console.print(table)
    if report.verdict == "partly":
        broken = dict.fromkeys(row.module for row in report.encoder if not row.spike_driven)
        console.print(f"Real-valued inside the {where}: {', '.join(broken)}")
    if report.operators:
        console.print("Other operators, which are no part of the verdict:", highlight=False)
    for use in report.operators:
        place = where if use.part == "encoder" else "outside"
        console.print(
            f"  {use.name}: {use.arithmetic} ({use.does}); {place}", highlight=False, markup=False, soft_wrap=True
        )


def _group_cells(rows: Sequence[Row]) -> list[str]:
    driven = [row for row in rows if row.spike_driven]
    rates = [row.rate for row in driven if row.rate is not None]
    sides = ", ".join(dict.fromkeys(str(row.operand) for row in driven)) or "none"
    some = "" if len(driven) in (0, len(rows)) else f" {len(driven)} of {len(rows)}"
    silent = " silent" if any(row.silent for row in rows) else ""
    several = any("unfolded" in str(row.operand) for row in driven)
    mean = rate_text(sum(rates) / len(rates), several) if rates else ""
    return [sides + some + silent, mean, f"{sum(row.macs for row in rows) / 1e6:,.1f}"]
