"""A table of the paper beside our own numbers: to the terminal, and to files under runs/tables/."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spikelm.report.tables.cells import TableData
from spikelm.report.tables.formats import FORMATS, THREE, heading, remarks
from spikelm.report.tables.marks import letter, mark
from spikelm.store.records import write_atomic


def show_table(data: TableData, console: Console | None = None) -> None:
    """Print it: three lines a row (ours, the paper's, the difference)."""
    shown = Table(title=heading(data), title_justify="left", pad_edge=False)
    shown.add_column("system", no_wrap=True)
    shown.add_column("")
    for name in data.columns.values():
        shown.add_column(name, justify="right")
    for line in data.lines:
        texts = {
            "ours": [f"[bold]{escape(cell.ours_text)}[/bold]" for cell in line.cells.values()],
            "paper": [escape(cell.paper_text + mark(cell.footnotes)) for cell in line.cells.values()],
            "difference": [f"[dim]{escape(cell.difference_text)}[/dim]" for cell in line.cells.values()],
        }
        for which in THREE:
            name = escape(line.name) if which == "ours" else ""
            shown.add_row(name, which, *texts[which], end_section=which == THREE[-1])
    console = console or Console(width=max(Console().width, 34 + 14 * len(data.columns)))
    console.print(shown)
    for place, text in enumerate(data.footnotes):
        console.print(f"  {letter(place)}: {text}", soft_wrap=True, highlight=False, markup=False)
    for note in remarks(data):
        console.print(f"  note: {note}", soft_wrap=True, highlight=False, markup=False)


def write_table(data: TableData, root: Path) -> list[Path]:
    """Write it in every format to runs/tables/."""
    folder = root / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, made in FORMATS.items():
        paths.append(folder / f"{data.name}.{ending}")
        write_atomic(paths[-1], made(data))
    return paths
