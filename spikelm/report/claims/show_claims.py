"""Claims as a person reads them, and as JSON beside the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spikelm.catalog.quantities import counted
from spikelm.report.claims.claims import Verdict
from spikelm.report.query.output import writable
from spikelm.report.query.selection import Selection
from spikelm.store.atomic import plain, write_atomic

COLOURS = {"held": "green", "failed": "red", "not run": "dim"}
WIDEST = 120  # letters; longer lines are hard to read


def show_claims(verdicts: Sequence[Verdict], selection: Selection, console: Console | None = None) -> None:
    """One row per claim: what the paper says, whether it holds, our numbers and its own."""
    console = console or Console()
    counts = ", ".join(f"{sum(one.status == status for one in verdicts)} {status}" for status in COLOURS)
    console.print(f"{len(verdicts)} claims at {selection.where}: {counts}", soft_wrap=True, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, width=min(console.width, WIDEST), padding=(0, 1, 0, 0), pad_edge=False)
    for column, width, share in (("section", 8, 0), ("claim", None, 1), ("", 7, 0), ("checked; ours (paper)", None, 1)):
        table.add_column(column, width=width, ratio=share or None, overflow="fold")
    for one in verdicts:
        lines = [one.check, numbers_text(one) or one.reason or missing_text(one)]
        colour = COLOURS[one.status]
        table.add_row(
            one.section, escape(one.statement), f"[{colour}]{one.status}[/{colour}]", escape("\n".join(lines))
        )
    console.print(table)


def missing_text(one: Verdict) -> str:
    """How many runs a claim still needs."""
    return f"{counted(len(one.missing), 'run')} missing"


def numbers_text(one: Verdict) -> str:
    """Ours by name, the paper's in brackets."""
    return ", ".join(
        f"{name} {_short(value)}{f' ({_short(one.paper[name])})' if name in one.paper else ''}"
        for name, value in one.numbers.items()
    )


def _short(value: float) -> str:
    return f"{value:.4g}"


def claims_dict(verdicts: Sequence[Verdict], selection: Selection) -> dict[str, Any]:
    """JSON-ready: where they were checked and every verdict."""
    where = {"scale": selection.scale, "source": selection.source_name, "seeds": list(selection.seeds)}
    counts = {status: sum(one.status == status for one in verdicts) for status in COLOURS}
    return {**where, "where": selection.where, "counts": counts, "claims": [one.to_dict() for one in verdicts]}


def write_claims(verdicts: Sequence[Verdict], selection: Selection, energy: bool = False) -> Path:
    """claims-<scale>-<source>.json beside the tables; those of energy are energy-claims-<scale>-<source>.json."""
    path = selection.folder / "tables" / f"{'energy-' if energy else ''}claims-{selection.suffix}.json"
    writable(path.parent)
    write_atomic(path, json.dumps(plain(claims_dict(verdicts, selection)), indent=1, ensure_ascii=False) + "\n")
    return path
