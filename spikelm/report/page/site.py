"""Writing the site: one run in memory at a time, and only the pages whose run has changed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spikelm.report.page import entries, overview
from spikelm.report.page.details import details
from spikelm.report.page.entries import Record
from spikelm.report.page.sections import read_sections
from spikelm.report.query.rerun import SECONDS, Commands
from spikelm.store.records import digest, disk_errors

TEMPLATES = Path(__file__).parent / "templates"
STATE = ".state.json"  # what the last build knew of each run
FILTERS = ("task", "system", "neuron", "scale", "source", "state")


@dataclass(frozen=True)
class Built:
    """What a build did."""

    index: Path
    runs: int
    rendered: int  # pages of runs that were made anew
    written: int  # files that changed
    untold: int = 0  # pages whose command another build has to work out


class Site:
    """runs/report/ of a store. `build` may be called again and again: it does what has changed since."""

    def __init__(self, root: Path, seconds: float = SECONDS) -> None:
        self._seconds = seconds  # for working out commands, in one build
        self.root = root.absolute()
        self.folder = self.root / "report"
        self._env = environment()
        self._composed = Commands.version()
        self._version = _version(self._composed)

    def build(self) -> Built:
        """Bring every page up to date."""
        with disk_errors(self.folder):
            (self.folder / "run").mkdir(parents=True, exist_ok=True)
            return self._build()

    def _build(self) -> Built:
        known = self._load()
        commands = Commands(known["bases"], self._seconds)
        rows: dict[str, dict[str, Any]] = {}
        listed = list(entries.directories(self.root))
        ids = {id for _, id in listed if id}
        rendered = written = 0
        for directory, id in listed:
            key = f"{directory.parent.name}/{directory.name}"
            found, print_ = known["runs"].get(key), entries.fingerprint(directory)
            if found and found["print"] == print_ and self._current(found, commands):
                rows[key] = found
                continue
            record = entries.read_record(self.root, directory, id)
            command = commands.command(record.config) if record.config else ""
            row, page = self._run_page(record, command, ids)
            written += self._write(self._page(row["name"]), page)
            rendered += 1
            rows[key] = {"print": print_, "told": command is not None, "row": row}
        shown = sorted((entry["row"] for entry in rows.values()), key=_newest_first)
        written += self._write_lists(shown)
        self._forget({row["name"] for row in shown})
        self._save({"version": self._version, "runs": rows, "composed": self._composed, "bases": commands.bases})
        untold = sum(not entry["told"] for entry in rows.values())
        return Built(self.folder / "index.html", len(rows), rendered, written, untold)

    def _run_page(self, record: Record, command: str | None, ids: set[str]) -> tuple[dict[str, Any], list[str]]:
        """Row and page of a run; what the schema does not foresee makes it a broken one, not a failed build."""
        known = {"base": "../", "command": command, "ids": ids}
        try:
            row = entries.row_of(record)
            return row, list(self._render("run.html", row=row, **known, **details(record)))
        except Exception as error:  # a record may hold anything
            problem = f"its records cannot be shown: {type(error).__name__}: {error}"
            bare = replace(record, state=entries.BROKEN, problem=problem, result={}, config={})
            row = entries.row_of(bare)
            return row, list(self._render("run.html", row=row, **known, **details(bare)))

    def _current(self, found: Mapping[str, Any], commands: Commands) -> bool:
        """Whether a page whose records are as they were is up to date.

        What has no result may change its state without a file that says so: it is looked at every time.
        """
        finished = found["row"]["state"] == "finished"
        return finished and (found["told"] or commands.late) and self._page(found["row"]["name"]).is_file()

    def _write_lists(self, rows: list[dict[str, Any]]) -> int:
        sections = read_sections(self.root, {row["id"]: row["name"] for row in rows if row["id"]})
        choices = {key: sorted(Counter(str(row[key]) for row in rows if row[key]).items()) for key in FILTERS}
        pages: dict[str, dict[str, Any]] = {
            "index.html": overview.overview(rows, sections),
            "runs.html": {"rows": rows, "choices": choices},
            **{f"{name}.html": {name: found} for name, found in sections.items() if found},
        }
        names = [name for name in ("index", "runs", "tables", "figures", "claims") if f"{name}.html" in pages]
        self._env.globals["pages"] = names
        written = sum(self._write(self.folder / name, self._render(name, base="", **of)) for name, of in pages.items())
        for name in set(sections) - set(names):
            (self.folder / f"{name}.html").unlink(missing_ok=True)
        return written

    def _render(self, template: str, **values: Any) -> Iterable[str]:
        # In pieces: the list of some thousand runs is never one string.
        self._env.globals.setdefault("pages", self._sections())
        stream = self._env.get_template(template).stream(**values)
        stream.enable_buffering(500)
        return stream

    def _sections(self) -> list[str]:
        """The lists that a run's page links to: those there are, by their files in the store."""
        found = read_sections(self.root, {})
        return ["index", "runs", *(name for name in ("tables", "figures", "claims") if found.get(name))]

    def _page(self, name: str) -> Path:
        return self.folder / "run" / f"{name}.html"

    def _write(self, path: Path, pieces: Iterable[str]) -> int:
        """Replace `path` if its content is another; 1 if it was. No fsync: a lost page is made again."""
        temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
        found = hashlib.sha256()
        try:
            with open(temporary, "wb") as file:
                for piece in pieces:
                    data = piece.encode("utf-8", "replace")
                    found.update(data)
                    file.write(data)
            with contextlib.suppress(OSError), open(path, "rb") as old:
                if hashlib.file_digest(old, "sha256").digest() == found.digest():
                    return 0
            os.replace(temporary, path)
            return 1
        finally:
            temporary.unlink(missing_ok=True)

    def _forget(self, names: set[str]) -> None:
        """Pages of runs that are no more."""
        for path in (self.folder / "run").glob("*.html"):
            if path.stem not in names:
                path.unlink(missing_ok=True)

    def _load(self) -> dict[str, Any]:
        known: dict[str, Any] = {"runs": {}, "bases": {}}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads((self.folder / STATE).read_text())
            if found["composed"] == self._composed:
                known["bases"] = dict(found["bases"])
            if found["version"] == self._version:
                known["runs"] = dict(found["runs"])
        return known

    def _save(self, state: Mapping[str, Any]) -> None:
        self._write(self.folder / STATE, json.JSONEncoder().iterencode(state))


def _newest_first(row: Mapping[str, Any]) -> tuple[int, list[int], str]:
    """What is going on first, then by the time it was finished; what has no result last."""
    place = {"running": 0, "finished": 1}.get(row["state"], 2)
    return (place, [-ord(letter) for letter in row["finished_at"]], row["directory"])


def _version(composed: str) -> str:
    """Of templates, code and conf: a change of any makes every page anew."""
    files = [path for path in sorted([*TEMPLATES.iterdir(), *TEMPLATES.parent.glob("*.py")]) if path.is_file()]
    return digest([composed, *([path.name, path.read_text(encoding="utf-8")] for path in files)])


def environment() -> Environment:
    """Templates that escape everything: names, texts of datasets and generated ones are never markup."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    assets = {name: (TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "theme.js", "page.js")}
    env.globals |= {name.partition(".")[0] + "_asset": Markup(text) for name, text in assets.items()}
    scripts = " ".join(_source(assets[name]) for name in ("theme.js", "page.js"))
    env.globals["policy"] = (
        f"default-src 'none'; img-src data:; style-src {_source(assets['style.css'])}; "
        f"script-src {scripts}; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    env.filters |= {"fixed": fixed, "percent": percent, "count": count, "when": when, "sized": sized}
    return env


def _source(text: str) -> str:
    """What a content security policy calls an inline script or style: nothing else may run in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals; empty for none."""
    return "" if value is None else f"{value:.{digits}f}".replace("-", "−")


def sized(value: float | None) -> str:
    """An energy: four significant digits, never rounded to nothing."""
    if value is None:
        return ""
    return f"{value:.4f}" if 0.001 <= abs(value) < 1 else f"{value:.4g}" if abs(value) < 1 else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share of one, in percent."""
    return "" if value is None else f"{100 * value:.1f}"


def count(value: float | None) -> str:
    """A whole number with separators."""
    return "" if value is None else f"{value:,.0f}"


def when(value: str) -> str:
    """2026-11-16T10:12:24+00:00 as 2026-11-16 10:12."""
    return value[:16].replace("T", " ")
