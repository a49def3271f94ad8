"""Tables, figures and claims for the page, from the files that their commands wrote; without files no section."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from spikelm.report.appearance import look_of, look_of_preset
from spikelm.report.claims.claims import Quantity, load_claims
from spikelm.report.claims.quantity_words import quantity_words, value_text
from spikelm.report.page.better import Better, better
from spikelm.report.page.charts import ShownLook, shown_look

CELL = re.compile(r"(?P<ours>.*?) ?\((?P<paper>[^()]*)\)")  # of a Markdown table: ours and the paper's in brackets
NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?")
DARK = "-dark"  # ends the name of a figure's twin for dark pages
FIGURE_BYTES = 4_000_000  # a larger picture is named, not shown
SAME = "same"  # the difference of two equal words or settings: both are there to be seen
TOLD = 10  # runs that a cell tells when it is pointed at
ORDER = ("failed", "not run", "held")  # of claims: what needs a look first
Entry = TypeVar("Entry", "TableSection", "ClaimsSection")


@dataclass(frozen=True)
class LinkedRun:
    """A run of this store that a number leads to."""

    name: str  # of its page
    directory: str
    command: str = ""  # empty where it is not known


Runs = Mapping[str, LinkedRun]  # by id


@dataclass(frozen=True)
class TableCell:
    """Ours, the paper's and the difference as text; the pages of its runs and the numbers of its footnotes."""

    ours: str = ""
    paper: str = ""
    delta: str = ""
    value: float | None = None  # ours, to sort and compare by
    runs: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    tip: str = ""  # its runs and their command
    best: bool = False  # of its column


@dataclass(frozen=True)
class TableColumn:
    """A column, and which way it is better."""

    name: str
    heading: str
    better: Better


@dataclass(frozen=True)
class TableRow:
    """A system and its cells."""

    name: str
    look: ShownLook
    cells: list[TableCell]


@dataclass(frozen=True)
class TableSection:
    """A table; `broken` says why it cannot be shown."""

    name: str
    made: str
    title: str
    broken: str = ""
    where: str = ""
    columns: list[TableColumn] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FigureSection:
    """A figure, inside the page as a data address; `dark` is its twin for dark pages, where there is one."""

    name: str
    made: str
    file: str
    title: str
    caption: str = ""
    broken: str = ""
    source: str = ""
    dark: str = ""
    runs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ShownQuantity:
    """A number of a claim: its short name in the check, what it is in words, ours and the paper's."""

    name: str
    words: str
    ours: str
    paper: str


@dataclass(frozen=True)
class ShownClaim:
    """A statement, whether it holds, and the numbers."""

    statement: str
    section: str
    status: str
    check: str
    quantities: list[ShownQuantity]
    reason: str  # why it cannot be checked here
    runs: list[str]
    missing: list[str]


@dataclass(frozen=True)
class ClaimsSection:
    """The claims at one scale and source."""

    name: str
    made: str
    title: str
    broken: str = ""
    where: str = ""
    claims: list[ShownClaim] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many are held, failed and not run."""
        statuses = ("held", "failed", "not run")
        return {status: sum(one.status == status for one in self.claims) for status in statuses}


@dataclass(frozen=True)
class Sections:
    """What the commands of the paper have written so far."""

    tables: list[TableSection]
    figures: list[FigureSection]
    claims: list[ClaimsSection]


#: which files make a section
FILES = {
    "tables": ("tables/table*.json", "tables/*.md"),
    "figures": ("figures/*.png", "figures/*.svg"),
    "claims": ("tables/claims-*.json",),
}


def section_names(folders: Sequence[Path]) -> list[str]:
    """The sections that there are, by the names of their files alone."""
    return [
        name
        for name, patterns in FILES.items()
        if any(next(folder.glob(pattern), None) for folder in folders for pattern in patterns)
    ]


def read_sections(folders: Sequence[Path], runs: Runs) -> Sections:
    """Tables, figures and claims; a file that cannot be read is an entry that says so.

    A store may bring its own (runs/reference does): of what is in several folders, that of the last one is shown.
    """
    tables = {one.name: one for folder in folders for one in _tables(folder / "tables", runs)}
    figures = {one.name: one for folder in folders for one in _figures(folder / "figures", runs)}
    claims = {path.stem: path for folder in folders for path in sorted((folder / "tables").glob("claims-*.json"))}
    return Sections(
        tables=sorted(tables.values(), key=lambda table: _place(table.name)),
        figures=sorted(figures.values(), key=lambda figure: figure.file),
        claims=[_or_broken(ClaimsSection, claims[name], lambda path: _claims(path, runs)) for name in sorted(claims)],
    )


def _tables(folder: Path, runs: Runs) -> list[TableSection]:
    """The JSON of every table; a table that has none by its Markdown."""
    data = [
        _or_broken(TableSection, path, lambda path: _from_json(path, runs))
        for path in sorted(folder.glob("table*.json"))
    ]
    names_of_data = {table.name for table in data}
    text = [
        _or_broken(TableSection, path, _from_markdown)
        for path in sorted(folder.glob("*.md"))
        if path.stem not in names_of_data
    ]
    return [*data, *text]


def _or_broken(kind: Callable[..., Entry], path: Path, read: Callable[[Path], Entry]) -> Entry:
    """The entry of a file, or one that says why it cannot be read."""
    try:
        return read(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"cannot be read: {type(error).__name__}: {error}"
        return kind(name=path.stem, made=_made(path), title=path.name, broken=why)


def _place(name: str) -> tuple[bool, int, str]:
    """Tables of the paper first, by number."""
    number = re.match(r"table(\d+)", name)
    return (number is None, int(number[1]) if number else 0, name)


def _made(path: Path) -> str:
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return ""


def _from_json(path: Path, runs: Runs) -> TableSection:
    """A table as `spikelm-report table` writes it: lines of cells with text, runs and footnotes."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    columns: dict[str, str] = raw["columns"]
    rows = [
        TableRow(
            line["name"],
            shown_look(look_of_preset(line["system"]) if line["system"] else look_of(line["name"])),
            [_cell(line["cells"].get(column) or {}, runs) for column in columns],
        )
        for line in raw["lines"]
    ]
    return TableSection(
        name=path.stem,
        made=_made(path),
        title=_title(raw["id"], raw["title"]),
        where=raw["where"],
        columns=[TableColumn(name, heading, better(name)) for name, heading in columns.items()],
        rows=rows,
        footnotes=raw.get("footnotes", []),
        notes=[*([raw["computed_from"]] if raw.get("computed_from") else []), *raw.get("notes", [])],
        missing=raw.get("missing", []),
    )


def _title(id: int | str, title: str) -> str:
    """Behind its number, where the paper has given it one."""
    return f"Table {id}: {title}" if isinstance(id, int) else f"{title[:1].upper()}{title[1:]}"


def _cell(raw: Mapping[str, Any], runs: Runs) -> TableCell:
    text = raw.get("text") or {}
    linked = [runs[run["id"]] for run in raw.get("runs", []) if run["id"] in runs]
    value, difference = raw.get("ours"), text.get("difference", "")
    return TableCell(
        ours=text.get("ours", "").replace("±", " ± "),
        paper=text.get("paper", ""),
        delta="" if difference == SAME else difference,
        value=value if isinstance(value, (int, float)) else None,
        runs=[run.name for run in linked],
        marks=[place + 1 for place in raw.get("footnotes", [])],
        tip=_tip(linked, raw.get("by_seed") or []),
        best=bool(raw.get("best")),
    )


def _tip(runs: Sequence[LinkedRun], by_seed: Sequence[object]) -> str:
    """What a cell says when it is pointed at: its runs, and of a single one the command."""
    if not runs:
        return ""
    lines = [f"{run.name[:8]}  {run.directory}" for run in runs[:TOLD]]
    lines += [f"and {len(runs) - TOLD} more"] if len(runs) > TOLD else []
    numbers = [f"{value:.4g}" for value in by_seed if isinstance(value, (int, float))]
    seeds = [f"by seed: {', '.join(numbers)}"] if len(numbers) > 1 else []
    command = [runs[0].command] if len(runs) == 1 and runs[0].command else []
    return "\n".join([f"{len(runs)} run{'s' if len(runs) > 1 else ''}", *lines, *seeds, *command])


def _from_markdown(path: Path) -> TableSection:
    """A table of which there is only the text: its title, cells and notes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, body = cells[0], cells[2:]
    title = next(line.removeprefix("# ") for line in lines if line.startswith("# "))
    name, _, where = title.partition(". Ours at ")
    return TableSection(
        name=path.stem,
        made=_made(path),
        title=name,
        where=where.removesuffix("; the paper's in brackets"),
        columns=[TableColumn(heading, heading, "") for heading in head[1:]],  # a text does not say what is better
        rows=[TableRow(row[0], shown_look(look_of(row[0])), [_split(cell) for cell in row[1:]]) for row in body],
        notes=[line.removeprefix("- ").replace("`", "") for line in lines if line.startswith("- ")],
    )


def _split(cell: str) -> TableCell:
    both = CELL.fullmatch(cell)
    ours, paper = (both["ours"].strip(), both["paper"]) if both else (cell, "")
    delta, value = "", None
    if ours_number := NUMBER.match(ours):
        value = float(ours_number[0].replace("−", "-"))
        if NUMBER.fullmatch(paper):
            digits = len(paper.partition(".")[2])
            delta = f"{value - float(paper):+.{digits}f}".replace("-", "−")
    return TableCell(ours.replace("±", " ± "), paper, delta, value)


def _figures(folder: Path, runs: Runs) -> list[FigureSection]:
    """Every picture, inside the page: as SVG where there is one, else as PNG."""
    pictures = {path.stem: path for path in (*sorted(folder.glob("*.png")), *sorted(folder.glob("*.svg")))}
    twins = {name for name in pictures if name.endswith(DARK) and name.removesuffix(DARK) in pictures}
    return [_figure(pictures[name], runs) for name in sorted(pictures.keys() - twins)]


def _figure(path: Path, runs: Runs) -> FigureSection:
    """A picture; title, caption and runs from the file beside it, where there is one."""
    raw: Mapping[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        raw = about if isinstance(about, dict) else {}
    source, broken = _picture(path)
    twin = path.with_name(f"{path.stem}{DARK}.svg")
    return FigureSection(
        name=path.stem,
        made=_made(path),
        file=path.name,
        title=str(raw.get("title") or path.stem.replace("-", " ")),
        caption=str(raw.get("caption") or ""),
        broken=broken,
        source=source,
        dark=_picture(twin)[0] if twin.is_file() else "",
        runs=_linked(raw, runs),
        missing=_words(raw, "missing"),
    )


def _picture(path: Path) -> tuple[str, str]:
    """Its data address, or why there is none."""
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    try:
        if path.stat().st_size > FIGURE_BYTES:
            return "", f"{path.stat().st_size / 1e6:.0f} MB, too large for the page"
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}", ""
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"


def _linked(raw: Mapping[str, Any], runs: Runs) -> list[str]:
    return [runs[id].name for id in _words(raw, "runs") if id in runs]


def _words(raw: Mapping[str, Any], key: str) -> list[str]:
    items = raw.get(key)
    return [str(item) for item in items] if isinstance(items, list) else []


def _claims(path: Path, runs: Runs) -> ClaimsSection:
    """The claims of one scale and source, as `spikelm-report claims` writes them; those that failed come first."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    known = {claim.id: claim.ours for claim in load_claims()}
    shown = [
        ShownClaim(
            statement=str(one["statement"]),
            section=str(one["section"]),
            status=str(one["status"]),
            check=str(one["check"]),
            quantities=_quantities(known.get(one.get("id", ""), {}), one.get("numbers") or {}, one.get("paper") or {}),
            reason=str(one.get("reason") or ""),
            runs=_linked(one, runs),
            missing=_words(one, "missing"),
        )
        for one in raw["claims"]
    ]
    shown.sort(key=lambda claim: ORDER.index(claim.status) if claim.status in ORDER else len(ORDER))
    return ClaimsSection(path.stem, _made(path), path.name, where=str(raw["where"]), claims=shown)


def _quantities(
    known: Mapping[str, Quantity], ours: Mapping[str, float], paper: Mapping[str, float]
) -> list[ShownQuantity]:
    """Every number by name, in words where conf/claims.yaml has it."""
    found = []
    for name in dict.fromkeys([*ours, *paper]):
        quantity = known.get(name)
        texts = [value_text(quantity, of[name]) if name in of else "" for of in (ours, paper)]
        found.append(ShownQuantity(name, quantity_words(quantity) if quantity else "", *texts))
    return found
