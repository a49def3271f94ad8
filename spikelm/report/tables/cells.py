"""A table as data: rows of cells, each with ours, the paper's, the difference, its runs and its footnotes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from spikelm.catalog.quantities import bits_text

SMALL = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
LETTERS = "abcdefghijklmnoprstuvwxyz"  # there is no small raised q
#: columns whose words are the paper's judgement, which ours (what was run) neither meet nor miss
JUDGED = ("discrimination", "generation")
#: columns with a number, or the short word of table 4 for three levels
BITS = ("weight_bits", "act_bits")
#: columns that a seed does not change
SETTINGS = ("T", "virtual_steps", *BITS)
NOT_RUN = "not run"
#: a run that a cell was computed from: id and directory below the store (glue-rte/bispike-...-1d2b4868)
RunRef = tuple[str, str]


@dataclass(frozen=True)
class Cell:
    """One number or word: ours for each seed there is (none: not run), the paper's as printed (None: it has none)."""

    column: str
    ours: tuple[float | str, ...] = ()
    paper: Decimal | int | str | None = None
    digits: int = 1  # behind the point, of ours
    difference_digits: int = 1
    runs: tuple[RunRef, ...] = ()
    footnotes: tuple[int, ...] = ()  # positions in the table's `footnotes`
    lacking: int = 0  # seeds that were asked for and have no value yet, where others have one
    comparable: bool = True  # with the paper's: an energy is not where the models are of another size
    best: bool = False  # of its column
    not_run: bool = False  # whether it says so, for a whole row without runs

    @property
    def numbers(self) -> list[float]:
        """Ours of each seed; none where they are words."""
        return [value for value in self.ours if isinstance(value, (int, float))]

    @property
    def mean(self) -> float | None:
        """Over the seeds there are."""
        return statistics.fmean(self.numbers) if self.numbers else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the seeds, None for one, and for T and bits, which no seed changes."""
        constant = self.column in SETTINGS and len(set(self.numbers)) == 1
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 and not constant else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, where the two can be compared."""
        if self.mean is None or not self.comparable or not isinstance(self.paper, (int, Decimal)):
            return None
        return tidy(tidy(self.mean) - float(self.paper))

    @property
    def ours_text(self) -> str:
        """Empty where nothing was run, never zero."""
        if self.mean is None:
            word = self.ours[0] if self.ours else NOT_RUN if self.not_run else ""
            return bits_text(word) if self.column in BITS else str(word)
        spread = "" if self.deviation is None else f"±{self.deviation:.{self.digits}f}"
        share = f" {self.share}" if self.share else ""
        return f"{self.mean:.{self.digits}f}{spread}".replace("-", "−") + share

    @property
    def share(self) -> str:
        """How many of the seeds it has, where it has not all: (1 of 3). T and bits are the same for any seed."""
        known = len(self.ours)
        return f"({known} of {known + self.lacking})" if self.lacking and self.column not in SETTINGS else ""

    @property
    def paper_text(self) -> str:
        return "–" if self.paper is None else str(self.paper)

    @property
    def difference_text(self) -> str:
        """With its sign; for words whether they agree."""
        if self.difference is not None:
            if self.difference == 0 and self.digits == 0:
                return "same"  # T or bits: a setting, not a score
            rounded = round(self.difference, self.difference_digits) + 0.0  # no −0.0
            return f"{rounded:+.{self.difference_digits}f}".replace("-", "−")
        if self.ours and isinstance(self.paper, str) and self.column not in JUDGED:
            return "same" if str(self.ours[0]).lower() == self.paper.lower() else "differs"
        return ""


@dataclass(frozen=True)
class Line:
    """A row: the printed name, the system that makes it, its cells by column."""

    name: str
    system: str | None
    cells: dict[str, Cell]


@dataclass(frozen=True)
class TableData:
    """A table of the paper beside ours, at one scale and source; or ours alone, for a paper of one's own."""

    id: int | str
    title: str
    scale: str
    source: str
    where: str  # scale, source, settings and seeds in words
    columns: dict[str, str]  # name -> heading
    lines: list[Line]
    footnotes: list[str] = field(default_factory=list)  # of cells
    notes: list[str] = field(default_factory=list)  # of the whole table
    computed_from: str = ""  # which runs measures come from
    missing: list[str] = field(default_factory=list)  # commands of the runs that are not finished
    name: str = ""  # of its files
    ours_only: bool = False
    lowest: list[str] = field(default_factory=list)  # columns whose best is their lowest value

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; a paper's number is text, digit by digit, and a number beside it."""
        record = asdict(self)
        record["lines"] = [
            {
                "name": line.name,
                "system": line.system,
                "cells": {column: cell_dict(cell, self.ours_only) for column, cell in line.cells.items()},
            }
            for line in self.lines
        ]
        return record


def cell_dict(cell: Cell, ours_only: bool = False) -> dict[str, Any]:
    """A cell for JSON."""
    printed = cell.paper
    ours = {
        "ours": cell.ours[0] if cell.ours and not cell.numbers else _number(cell),
        "by_seed": [tidy(value) if isinstance(value, float) else value for value in cell.ours],
        "deviation": None if cell.deviation is None else tidy(cell.deviation),
        "seeds_lacking": cell.lacking,
        "best": cell.best,
        "runs": [{"id": id, "directory": directory} for id, directory in cell.runs],
        "footnotes": list(cell.footnotes),
    }
    if ours_only:
        return {**ours, "text": {"ours": cell.ours_text}}
    return {
        **ours,
        "paper": float(printed) if isinstance(printed, (int, Decimal)) else printed,
        "paper_printed": None if printed is None else str(printed),
        "difference": cell.difference,
        "text": {"ours": cell.ours_text, "paper": cell.paper_text, "difference": cell.difference_text},
    }


def _number(cell: Cell) -> float | int | None:
    """The mean; T and bits are whole numbers."""
    if cell.mean is None:
        return None
    return int(cell.mean) if cell.digits == 0 and cell.mean.is_integer() else tidy(cell.mean)


def tidy(value: float) -> float:
    """Without the digits that only the arithmetic made: 2.1, not 2.1000000000000014.

    Scores are computed in single precision, which has seven: 73, not 73.00000190734863.
    """
    return float(f"{round(value, 12):.7g}")


def letter(place: int) -> str:
    """The mark of the n-th footnote, counted from 0."""
    return LETTERS[place]


def mark(places: Sequence[int]) -> str:
    """The raised letters behind a cell."""
    return ",".join(letter(place) for place in places).translate(SMALL)
