"""Tables, figures and claims for the page, from the files that their commands wrote; without files no section."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CELL = re.compile(r"(?P<ours>.*?) ?\((?P<paper>[^()]*)\)")  # of a Markdown table: ours and the paper's in brackets
NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?")
FIGURE_BYTES = 4_000_000  # a larger picture is named, not shown
Names = Mapping[str, str]  # run id -> its page


def read_sections(root: Path, names: Names) -> dict[str, list[dict[str, Any]]]:
    """tables, figures and claims; a file that cannot be read is an entry that says so."""
    return {
        "tables": _tables(root / "tables", names),
        "figures": _figures(root / "figures", names),
        "claims": _read_all(root / "tables", "claims-*.json", lambda path: _claims(path, names)),
    }


def _tables(folder: Path, names: Names) -> list[dict[str, Any]]:
    """The JSON of every table; a table that has none by its Markdown."""
    data = _read_all(folder, "table*.json", lambda path: _from_json(path, names))
    there = {table["name"] for table in data}
    text = _read_all(folder, "*.md", _from_markdown, skip=there)
    return sorted([*data, *text], key=lambda table: _place(table["name"]))


def _place(name: str) -> tuple[bool, int, str]:
    """Tables of the paper first, by number."""
    found = re.match(r"table(\d+)", name)
    return (found is None, int(found[1]) if found else 0, name)


def _read_all(
    folder: Path, pattern: str, read: Callable[[Path], dict[str, Any]], skip: set[str] | None = None
) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob(pattern)):
        if skip and path.stem in skip:
            continue
        try:
            entry = read(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            entry = {"title": path.name, "broken": f"cannot be read: {type(error).__name__}: {error}"}
        found.append({"broken": "", "where": "", "name": path.stem, "made": _made(path), **entry})
    return found


def _made(path: Path) -> str:
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return ""


def _from_json(path: Path, names: Names) -> dict[str, Any]:
    """A table as `spikelm-report table` writes it: lines of cells with text, runs and footnotes."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    columns: dict[str, str] = raw["columns"]
    rows = [
        {"name": line["name"], "cells": [_cell(line["cells"].get(column) or {}, names) for column in columns]}
        for line in raw["lines"]
    ]
    return {
        "title": f"Table {raw['id']}: {raw['title']}",
        "where": raw["where"],
        "headings": list(columns.values()),
        "rows": rows,
        "footnotes": raw.get("footnotes", []),
        "notes": [*([raw["computed_from"]] if raw.get("computed_from") else []), *raw.get("notes", [])],
        "missing": raw.get("missing", []),
    }


def _cell(raw: Mapping[str, Any], names: Names) -> dict[str, Any]:
    text = raw.get("text") or {}
    runs = [run["id"] for run in raw.get("runs", [])]
    return {
        "ours": text.get("ours", ""),
        "paper": text.get("paper", ""),
        "delta": text.get("difference", ""),
        "runs": [names[id] for id in runs if id in names],
        "marks": [place + 1 for place in raw.get("footnotes", [])],
    }


def _from_markdown(path: Path) -> dict[str, Any]:
    """A table of which there is only the text: its title, cells and notes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, body = cells[0], cells[2:]
    title = next(line.removeprefix("# ") for line in lines if line.startswith("# "))
    name, _, where = title.partition(". Ours at ")
    return {
        "title": name,
        "where": where.removesuffix("; the paper's in brackets"),
        "headings": head[1:],
        "rows": [{"name": row[0], "cells": [_split(cell) for cell in row[1:]]} for row in body],
        "footnotes": [],
        "notes": [line.removeprefix("- ").replace("`", "") for line in lines if line.startswith("- ")],
        "missing": [],
    }


def _split(cell: str) -> dict[str, Any]:
    found = CELL.fullmatch(cell)
    ours, paper = (found["ours"].strip(), found["paper"]) if found else (cell, "")
    delta = ""
    if (ours_number := NUMBER.match(ours)) and NUMBER.fullmatch(paper):
        digits = len(paper.partition(".")[2])
        delta = f"{float(ours_number[0]) - float(paper):+.{digits}f}".replace("-", "−")
    return {"ours": ours, "paper": paper, "delta": delta, "runs": [], "marks": []}


def _figures(folder: Path, names: Names) -> list[dict[str, Any]]:
    """Every picture, inside the page: as SVG where there is one, else as PNG."""
    found = []
    for path in sorted({*folder.glob("*.svg"), *folder.glob("*.png")}):
        if path.suffix == ".png" and path.with_suffix(".svg").is_file():
            continue
        entry = {"name": path.stem, "title": path.stem.replace("-", " "), "file": path.name, "made": _made(path)}
        entry |= {"caption": "", "broken": "", "source": "", **_picture(path)}
        found.append({**entry, **_about(path.with_suffix(".json"), names)})
    return found


def _picture(path: Path) -> dict[str, str]:
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    try:
        if path.stat().st_size > FIGURE_BYTES:
            return {"broken": f"{path.stat().st_size / 1e6:.0f} MB, too large for the page"}
        return {"source": f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"}
    except OSError as error:
        return {"broken": f"cannot be read: {error.strerror}"}


def _about(path: Path, names: Names) -> dict[str, Any]:
    """Title, caption and runs of a figure, where a file beside it says them."""
    raw: Mapping[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        raw = found if isinstance(found, dict) else {}
    said = {key: str(raw[key]) for key in ("title", "caption") if raw.get(key)}
    return {**said, "runs": _linked(raw, names), "missing": _words(raw, "missing")}


def _linked(raw: Mapping[str, Any], names: Names) -> list[str]:
    return [names[id] for id in _words(raw, "runs") if id in names]


def _words(raw: Mapping[str, Any], key: str) -> list[str]:
    found = raw.get(key)
    return [str(item) for item in found] if isinstance(found, list) else []


def _claims(path: Path, names: Names) -> dict[str, Any]:
    """The claims of one scale and source, as `spikelm-report claims` writes them."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    shown = [
        {
            "statement": str(one["statement"]),
            "section": str(one["section"]),
            "status": str(one["status"]),
            "check": str(one["check"]),
            "numbers": _beside(one.get("numbers") or {}, one.get("paper") or {}) or str(one.get("reason") or ""),
            "runs": _linked(one, names),
            "missing": _words(one, "missing"),
        }
        for one in raw["claims"]
    ]
    counts = {status: sum(one["status"] == status for one in shown) for status in ("held", "failed", "not run")}
    return {"title": path.name, "where": str(raw["where"]), "claims": shown, "counts": counts}


def _beside(ours: Mapping[str, float], paper: Mapping[str, float]) -> str:
    """Our numbers by name, the paper's in brackets."""
    return ", ".join(
        f"{name} {value:.4g}" + (f" ({paper[name]:.4g})" if name in paper else "") for name, value in ours.items()
    )
