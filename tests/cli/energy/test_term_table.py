"""The energy of a backbone term by term as a table: complete, in 80 columns, and without torch."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console

from spikelm.cli.energy.term_table import print_energy


def test_table_shows_every_term_in_80_columns() -> None:
    console = Console(record=True, width=80, quiet=False, file=None)
    with console.capture() as capture:
        print_energy(12, 768, 3072, 128, T=4, rate=0.3416, console=console)
    text = capture.get()
    for piece in (
        "attention x value",
        "11,173,625,856",
        "51.399",
        "16.760",
        "13.741",
        "10.06 mJ per",
        "pooler",
        "32.4%",
    ):
        assert piece in text, piece
    assert "…" not in text


def test_energy_needs_no_torch() -> None:
    code = "import sys, spikelm.cli.energy.term_table; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
