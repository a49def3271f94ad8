"""Writing the site: one run in memory at a time, and only the pages whose run has changed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spikelm.machine.disk import disk_errors
from spikelm.report.page import entries, overview
from spikelm.report.page.details import details
from spikelm.report.page.entries import Record, RunRow
from spikelm.report.page.sections import read_sections
from spikelm.report.query.output import writable
from spikelm.report.query.rerun import SECONDS, Commands, Settings
from spikelm.store.hashing import digest
from spikelm.store.store import RESULT_ONLY

TEMPLATES = Path(__file__).parent / "templates"
STATE = ".state.json"  # what the last build knew of each run
LISTS = ("index", "runs", "tables", "figures", "claims")  # the pages beside those of single runs
FILTERS = ("task", "system", "neuron", "scale", "source", "state")


@dataclass(frozen=True)
class Built:
    """What a build did."""

    index: Path
    runs: int
    rendered: int  # pages of runs that were made anew
    written: int  # files that changed
    untold: int = 0  # pages whose command another build has to work out


@dataclass(frozen=True)
class KnownRun:
    """What a build keeps of a run for the next one."""

    fingerprint: list[int]
    has_command: bool  # whether its page says the command
    row: RunRow


@dataclass(frozen=True)
class State:
    """.state.json: what the last build knew of each run, and the configs that it composed."""

    runs: dict[str, KnownRun]
    bases: dict[str, Settings]


class Site:
    """The site of a store. `build` may be called again and again: it does what has changed since.

    It is in report/ of the store; a store that is only read needs another `folder`.
    """

    def __init__(self, root: Path, folder: Path | None = None, seconds: float = SECONDS) -> None:
        self._seconds = seconds  # for working out commands, in one build
        self.root = root.absolute()
        self.folder = (folder or self.root / "report").absolute()
        self._env = environment()
        self._composed = Commands.version()
        self._version = _version(self._composed)

    def build(self) -> Built:
        """Bring every page up to date."""
        writable(self.folder / "run")
        with disk_errors(self.folder):
            return self._build()

    def _build(self) -> Built:
        last = self._load()
        commands = Commands(last.bases, self._seconds)
        runs: dict[str, KnownRun] = {}
        listed = list(entries.directories(self.root))
        ids = {id for _, id in listed if id}
        rendered = written = 0
        for directory, id in listed:
            key = f"{directory.parent.name}/{directory.name}"
            before, fingerprint = last.runs.get(key), entries.fingerprint(directory)
            if before and before.fingerprint == fingerprint and self._current(before, commands):
                runs[key] = before
                continue
            record = entries.read_record(self.root, directory, id)
            command = commands.command(record.config) if record.config else ""
            row, page = self._run_page(record, command, ids)
            written += self._write(self._page(row.name), page)
            rendered += 1
            runs[key] = KnownRun(fingerprint, command is not None, row)
        rows = sorted((run.row for run in runs.values()), key=_newest_first)
        written += self._write_lists(rows)
        self._forget({row.name for row in rows})
        self._save(State(runs, commands.bases))
        untold = sum(not run.has_command for run in runs.values())
        return Built(self.folder / "index.html", len(runs), rendered, written, untold)

    def _run_page(self, record: Record, command: str | None, ids: set[str]) -> tuple[RunRow, list[str]]:
        """Row and page of a run; what cannot be shown makes it a broken one, not a failed build."""
        context = {"base": "../", "command": command, "ids": ids}
        try:
            row = entries.row_of(record)
            return row, list(self._render("run.html", row=row, **context, **vars(details(record))))
        except Exception as error:  # a run must not keep the others from being shown
            problem = f"its records cannot be shown: {type(error).__name__}: {error}"
            bare = replace(record, state=entries.BROKEN, problem=problem, result=None, config=None)
            row = entries.row_of(bare)
            return row, list(self._render("run.html", row=row, **context, **vars(details(bare))))

    def _current(self, run: KnownRun, commands: Commands) -> bool:
        """Whether a page whose records are as they were is up to date.

        What has no result may change its state without a file that says so: it is looked at every time.
        """
        finished = run.row.state in (entries.FINISHED, RESULT_ONLY)
        return finished and (run.has_command or commands.late) and self._page(run.row.name).is_file()

    def _write_lists(self, rows: list[RunRow]) -> int:
        sections = read_sections((self.root, self.folder), {row.id: row.name for row in rows if row.id})
        values = {key: [str(getattr(row, key)) for row in rows] for key in FILTERS}
        choices = {key: sorted(Counter(filter(None, texts)).items()) for key, texts in values.items()}
        pages: dict[str, dict[str, Any]] = {
            "index.html": vars(overview.overview(rows, sections)),
            "runs.html": {"rows": rows, "choices": choices},
            **{f"{name}.html": {name: shown} for name, shown in vars(sections).items() if shown},
        }
        names = [name for name in LISTS if f"{name}.html" in pages]
        self._env.globals["pages"] = names
        written = sum(self._write(self.folder / name, self._render(name, base="", **of)) for name, of in pages.items())
        for name in set(LISTS) - set(names):
            (self.folder / f"{name}.html").unlink(missing_ok=True)
        return written

    def _render(self, template: str, **values: Any) -> Iterable[str]:
        # In pieces: the list of some thousand runs is never one string.
        self._env.globals.setdefault("pages", self._sections())
        stream = self._env.get_template(template).stream(**values)
        stream.enable_buffering(500)
        return stream

    def _sections(self) -> list[str]:
        """The lists that a run's page links to: those there are, by the files of tables, figures and claims."""
        sections = read_sections((self.root, self.folder), {})
        return ["index", "runs", *(name for name, shown in vars(sections).items() if shown)]

    def _page(self, name: str) -> Path:
        return self.folder / "run" / f"{name}.html"

    def _write(self, path: Path, pieces: Iterable[str]) -> int:
        """Replace `path` if its content is another; 1 if it was. No fsync: a lost page is made again."""
        temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
        content = hashlib.sha256()
        try:
            with open(temporary, "wb") as file:
                for piece in pieces:
                    data = piece.encode("utf-8", "replace")
                    content.update(data)
                    file.write(data)
            with contextlib.suppress(OSError), open(path, "rb") as old:
                if hashlib.file_digest(old, "sha256").digest() == content.digest():
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

    def _load(self) -> State:
        """What the last build knew; nothing of it where code, templates or conf have changed since."""
        state = State({}, {})
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            saved = json.loads((self.folder / STATE).read_text())
            if saved["composed"] == self._composed:
                state = State({}, dict(saved["bases"]))
            if saved["version"] == self._version:
                runs = {key: KnownRun(**{**run, "row": RunRow(**run["row"])}) for key, run in saved["runs"].items()}
                state = State(runs, state.bases)
        return state

    def _save(self, state: State) -> None:
        saved = {"version": self._version, "composed": self._composed, **asdict(state)}
        self._write(self.folder / STATE, json.JSONEncoder().iterencode(saved))


def _newest_first(row: RunRow) -> tuple[int, list[int], str]:
    """What is going on first, then by the time it was finished; what has no result last."""
    place = {"running": 0, entries.FINISHED: 1, RESULT_ONLY: 1}.get(row.state, 2)
    return (place, [-ord(letter) for letter in row.finished_at], row.directory)


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
