"""The spike audit as a table: the equal matmuls of all layers in one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.quantities import rate_text
from spikelm.measure.audit import AuditReport, any_layer
from spikelm.measure.watch import Row

#: blocks that stand in no module called encoder or decoder are those of a decoder
SPOKEN = dict.fromkeys(("layers", "h", "blocks"), "decoder")


def print_audit(report: AuditReport, console: Console) -> None:
    """A table with the equal matmuls of all layers in one line."""
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
