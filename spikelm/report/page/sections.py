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

CELL = re.compile(r"(?P<ours>.*?) ?\((?P<paper>[^()]*)\)")  # of a Markdown table: ours and the paper's in brackets
NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?")
FIGURE_BYTES = 4_000_000  # a larger picture is named, not shown
Names = Mapping[str, str]  # run id -> its page
Entry = TypeVar("Entry", "TableSection", "ClaimsSection")


@dataclass(frozen=True)
class TableCell:
    """Ours, the paper's and the difference as text; the pages of its runs and the numbers of its footnotes."""

    ours: str = ""
    paper: str = ""
    delta: str = ""
    runs: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class TableRow:
    """A system and its cells."""

    name: str
    cells: list[TableCell]


@dataclass(frozen=True)
class TableSection:
    """A table of the paper; `broken` says why it cannot be shown."""

    name: str
    made: str
    title: str
    broken: str = ""
    where: str = ""
    headings: list[str] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FigureSection:
    """A figure, inside the page as a data address."""

    name: str
    made: str
    file: str
    title: str
    caption: str = ""
    broken: str = ""
    source: str = ""
    runs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ShownClaim:
    """A statement, whether it holds, and the numbers."""

    statement: str
    section: str
    status: str
    check: str
    numbers: str
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
        return {status: sum(one.status == status for one in self.claims) for status in ("held", "failed", "not run")}


@dataclass(frozen=True)
class Sections:
    """What the commands of the paper have written so far."""

    tables: list[TableSection]
    figures: list[FigureSection]
    claims: list[ClaimsSection]


def read_sections(folders: Sequence[Path], names: Names) -> Sections:
    """Tables, figures and claims; a file that cannot be read is an entry that says so.

    A store may bring its own (runs/reference does): of what is in several folders, that of the last one is shown.
    """
    tables = {one.name: one for folder in folders for one in _tables(folder / "tables", names)}
    figures = {one.name: one for folder in folders for one in _figures(folder / "figures", names)}
    claims = {path.stem: path for folder in folders for path in sorted((folder / "tables").glob("claims-*.json"))}
    return Sections(
        tables=sorted(tables.values(), key=lambda table: _place(table.name)),
        figures=sorted(figures.values(), key=lambda figure: figure.file),
        claims=[_or_broken(ClaimsSection, claims[name], lambda path: _claims(path, names)) for name in sorted(claims)],
    )


def _tables(folder: Path, names: Names) -> list[TableSection]:
    """The JSON of every table; a table that has none by its Markdown."""
    data = [
        _or_broken(TableSection, path, lambda path: _from_json(path, names))
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


def _from_json(path: Path, names: Names) -> TableSection:
    """A table as `spikelm-report table` writes it: lines of cells with text, runs and footnotes."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    columns: dict[str, str] = raw["columns"]
    return TableSection(
        name=path.stem,
        made=_made(path),
        title=f"Table {raw['id']}: {raw['title']}",
        where=raw["where"],
        headings=list(columns.values()),
        rows=[
            TableRow(line["name"], [_cell(line["cells"].get(column) or {}, names) for column in columns])
            for line in raw["lines"]
        ],
        footnotes=raw.get("footnotes", []),
        notes=[*([raw["computed_from"]] if raw.get("computed_from") else []), *raw.get("notes", [])],
        missing=raw.get("missing", []),
    )


def _cell(raw: Mapping[str, Any], names: Names) -> TableCell:
    text = raw.get("text") or {}
    return TableCell(
        ours=text.get("ours", ""),
        paper=text.get("paper", ""),
        delta=text.get("difference", ""),
        runs=[names[run["id"]] for run in raw.get("runs", []) if run["id"] in names],
        marks=[place + 1 for place in raw.get("footnotes", [])],
    )


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
        headings=head[1:],
        rows=[TableRow(row[0], [_split(cell) for cell in row[1:]]) for row in body],
        notes=[line.removeprefix("- ").replace("`", "") for line in lines if line.startswith("- ")],
    )


def _split(cell: str) -> TableCell:
    both = CELL.fullmatch(cell)
    ours, paper = (both["ours"].strip(), both["paper"]) if both else (cell, "")
    delta = ""
    if (ours_number := NUMBER.match(ours)) and NUMBER.fullmatch(paper):
        digits = len(paper.partition(".")[2])
        delta = f"{float(ours_number[0]) - float(paper):+.{digits}f}".replace("-", "−")
    return TableCell(ours, paper, delta)


def _figures(folder: Path, names: Names) -> list[FigureSection]:
    """Every picture, inside the page: as SVG where there is one, else as PNG."""
    paths = sorted({*folder.glob("*.svg"), *folder.glob("*.png")})
    return [_figure(path, names) for path in paths if path.suffix == ".svg" or not path.with_suffix(".svg").is_file()]


def _figure(path: Path, names: Names) -> FigureSection:
    """A picture; title, caption and runs from the file beside it, where there is one."""
    raw: Mapping[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        raw = about if isinstance(about, dict) else {}
    source, broken = _picture(path)
    return FigureSection(
        name=path.stem,
        made=_made(path),
        file=path.name,
        title=str(raw.get("title") or path.stem.replace("-", " ")),
        caption=str(raw.get("caption") or ""),
        broken=broken,
        source=source,
        runs=_linked(raw, names),
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


def _linked(raw: Mapping[str, Any], names: Names) -> list[str]:
    return [names[id] for id in _words(raw, "runs") if id in names]


def _words(raw: Mapping[str, Any], key: str) -> list[str]:
    items = raw.get(key)
    return [str(item) for item in items] if isinstance(items, list) else []


def _claims(path: Path, names: Names) -> ClaimsSection:
    """The claims of one scale and source, as `spikelm-report claims` writes them."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    shown = [
        ShownClaim(
            statement=str(one["statement"]),
            section=str(one["section"]),
            status=str(one["status"]),
            check=str(one["check"]),
            numbers=_beside(one.get("numbers") or {}, one.get("paper") or {}) or str(one.get("reason") or ""),
            runs=_linked(one, names),
            missing=_words(one, "missing"),
        )
        for one in raw["claims"]
    ]
    return ClaimsSection(path.stem, _made(path), path.name, where=str(raw["where"]), claims=shown)


def _beside(ours: Mapping[str, float], paper: Mapping[str, float]) -> str:
    """Our numbers by name, the paper's in brackets."""
    return ", ".join(
        f"{name} {value:.4g}" + (f" ({paper[name]:.4g})" if name in paper else "") for name, value in ours.items()
    )
