"""Writing the site: one run in memory at a time, and only the pages whose run has changed.

`index.html` and its lists, `run/` with a page and `data/` with a script for each run, and `assets/`: style, scripts and
plotly, each named by its content or version, so that a browser keeps them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from spikelm.machine.disk import disk_errors
from spikelm.report import appearance
from spikelm.report.page import entries, numbers, overview
from spikelm.report.page.better import Better
from spikelm.report.page.charts import copy_plotly, plotly_name
from spikelm.report.page.details import RunPage, details
from spikelm.report.page.entries import Record, RunRow
from spikelm.report.page.run_data import run_data
from spikelm.report.page.sections import LinkedRun, Runs, read_sections, section_names
from spikelm.report.query.output import writable
from spikelm.report.query.rerun import SECONDS, Commands, Settings
from spikelm.store.hashing import digest
from spikelm.store.store import RESULT_ONLY

TEMPLATES = Path(__file__).parent / "templates"
STATE = ".state.json"  # what the last build knew of each run
LISTS = ("index", "runs", "compare", "tables", "figures", "claims")  # the pages beside those of single runs
FILTERS = ("task", "system", "neuron", "scale", "source", "state")
SCRIPTS = ("theme.js", "page.js", "charts.js", "lists.js", "compare.js")
#: nothing from elsewhere is loaded or run. Styles may be inline: plotly sets attributes.
POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class ListColumn:
    """A column of the list of runs: its name in the address, its heading, and whether it is shown unasked."""

    key: str
    heading: str
    numeric: bool = False
    shown: bool = True
    better: Better = ""


COLUMNS = (
    ListColumn("run", "run"),
    ListColumn("task", "task"),
    ListColumn("system", "system"),
    ListColumn("score", "score", numeric=True),
    ListColumn("energy", "mJ fp32", numeric=True, better="lower"),
    ListColumn("ann", "saving", numeric=True, better="higher"),
    ListColumn("firing", "firing %", numeric=True),
    ListColumn("neuron", "neuron"),
    ListColumn("data", "data"),
    ListColumn("seed", "seed", numeric=True),
    ListColumn("status", "status"),
    ListColumn("finished", "finished"),
    ListColumn("constant", "constant", numeric=True, shown=False),
    ListColumn("fp16", "mJ fp16", numeric=True, shown=False, better="lower"),
    ListColumn("parameters", "parameters", numeric=True, shown=False),
    ListColumn("steps", "steps", numeric=True, shown=False),
    ListColumn("memory", "peak MB", numeric=True, shown=False),
    ListColumn("time", "time", numeric=True, shown=False),
    ListColumn("folder", "folder", shown=False),
)


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
    command: str | None  # that makes it again; None: another build has to work it out
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
            for part in ("run", "data", "assets"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            self._write_assets()
            return self._build()

    def _build(self) -> Built:
        self._env.globals["pages"] = ["index", "runs", "compare", *section_names((self.root, self.folder))]
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
            row, page, data = self._run_page(record, command, ids)
            written += self._write(self._data(row.name), [data])
            written += self._write(self._page(row.name), page)
            rendered += 1
            runs[key] = KnownRun(fingerprint, command, row)
        rows = sorted((run.row for run in runs.values()), key=_newest_first)
        linked = [LinkedRun(run.row.name, run.row.directory, run.command or "") for run in runs.values()]
        by_id = {run.row.id: link for run, link in zip(runs.values(), linked, strict=True) if run.row.id}
        written += self._write_lists(rows, by_id)
        self._forget({row.name for row in rows})
        self._save(State(runs, commands.bases))
        untold = sum(run.command is None for run in runs.values())
        return Built(self.folder / "index.html", len(runs), rendered, written, untold)

    def _run_page(self, record: Record, command: str | None, ids: set[str]) -> tuple[RunRow, list[str], str]:
        """Row, page and data of a run; what cannot be shown makes it a broken one, not a failed build."""
        try:
            row = entries.row_of(record)
            return self._rendered_run(row, details(record), command, ids)
        except Exception as error:  # a run must not keep the others from being shown
            problem = f"its records cannot be shown: {type(error).__name__}: {error}"
            bare = replace(record, state=entries.BROKEN, problem=problem, result=None, config=None)
            return self._rendered_run(entries.row_of(bare), details(bare), command, ids)

    def _rendered_run(
        self, row: RunRow, page: RunPage, command: str | None, ids: set[str]
    ) -> tuple[RunRow, list[str], str]:
        data = run_data(row, page, command or "")
        context = {"base": "../", "command": command, "ids": ids}
        return row, list(self._render("run.html", row=row, **context, **vars(page))), data

    def _current(self, run: KnownRun, commands: Commands) -> bool:
        """Whether a page whose records are as they were is up to date.

        What has no result may change its state without a file that says so: it is looked at every time.
        """
        finished = run.row.state in (entries.FINISHED, RESULT_ONLY)
        return finished and (run.command is not None or commands.late) and self._page(run.row.name).is_file()

    def _write_lists(self, rows: list[RunRow], runs: Runs) -> int:
        sections = read_sections((self.root, self.folder), runs)
        values = {key: [str(getattr(row, key)) for row in rows] for key in FILTERS}
        choices = {key: sorted(Counter(filter(None, texts)).items()) for key, texts in values.items()}
        pages: dict[str, dict[str, Any]] = {
            "index.html": vars(overview.overview(rows, sections)),
            "runs.html": {"rows": rows, "choices": choices, "columns": COLUMNS},
            "compare.html": {},
            **{f"{name}.html": {name: shown} for name, shown in vars(sections).items() if shown},
        }
        written = sum(self._write(self.folder / name, self._render(name, base="", **of)) for name, of in pages.items())
        for name in LISTS:
            if f"{name}.html" not in pages:
                (self.folder / f"{name}.html").unlink(missing_ok=True)
        return written

    def _render(self, template: str, **values: Any) -> Iterable[str]:
        # In pieces: the list of some thousand runs is never one string.
        stream = self._env.get_template(template).stream(**values)
        stream.enable_buffering(500)
        return stream

    def _page(self, name: str) -> Path:
        return self.folder / "run" / f"{name}.html"

    def _data(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.js"

    def _write_assets(self) -> None:
        """Style, scripts and plotly; those of another version go."""
        folder = self.folder / "assets"
        wanted = {asset_name(name): name for name in (*SCRIPTS, "style.css")}
        for name, template in wanted.items():
            if not (folder / name).is_file():
                self._write(folder / name, [(TEMPLATES / template).read_text(encoding="utf-8")])
        if not (folder / plotly_name()).is_file():
            copy_plotly(folder)
        for path in folder.iterdir():
            if path.name not in {*wanted, plotly_name()}:
                path.unlink(missing_ok=True)

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
        """Pages and data of runs that are no more."""
        for path in [*(self.folder / "run").glob("*.html"), *(self.folder / "data").glob("*.js")]:
            if path.stem not in names:
                path.unlink(missing_ok=True)

    def _load(self) -> State:
        """What the last build knew; nothing of it where code, templates or conf have changed since.

        Nor of the runs where a first table, figure or claim has come: every page links to it.
        """
        state = State({}, {})
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            saved = json.loads((self.folder / STATE).read_text())
            if saved["composed"] == self._composed:
                state = State({}, dict(saved["bases"]))
            if saved["version"] == self._version and saved["pages"] == self._env.globals["pages"]:
                runs = {key: KnownRun(**{**run, "row": RunRow(**run["row"])}) for key, run in saved["runs"].items()}
                state = State(runs, state.bases)
        return state

    def _save(self, state: State) -> None:
        pages = self._env.globals["pages"]
        saved = {"version": self._version, "composed": self._composed, "pages": pages, **asdict(state)}
        self._write(self.folder / STATE, json.JSONEncoder().iterencode(saved))


def _newest_first(row: RunRow) -> tuple[int, list[int], str]:
    """What is going on first, then by the time it was finished; what has no result last."""
    place = {"running": 0, entries.FINISHED: 1, RESULT_ONLY: 1}.get(row.state, 2)
    return (place, [-ord(letter) for letter in row.finished_at], row.directory)


def _version(composed: str) -> str:
    """Of templates, code and conf: a change of any makes every page anew."""
    code = [Path(appearance.__file__), *TEMPLATES.parent.glob("*.py")]
    files = [path for path in sorted([*TEMPLATES.iterdir(), *code]) if path.is_file()]
    return digest([composed, *([path.name, path.read_text(encoding="utf-8")] for path in files)])


def environment() -> Environment:
    """Templates that escape everything: names, texts of datasets and generated ones are never markup."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    env.globals |= {"policy": POLICY, "asset": asset_name, "plotly": plotly_name()}
    env.filters |= {
        "fixed": numbers.fixed,
        "score": numbers.score_text,
        "percent": numbers.percent,
        "count": numbers.count,
        "when": numbers.when,
        "energy": numbers.energy_text,
        "duration": numbers.seconds_text,
        "plain": lambda records: [asdict(record) for record in records],
    }
    return env


@lru_cache(maxsize=32)
def asset_name(template: str) -> str:
    """The file of a script or style beside the pages: named by its content, so that an old one is never used."""
    stem, _, kind = template.partition(".")
    content = hashlib.sha256((TEMPLATES / template).read_bytes()).hexdigest()[:10]
    return f"{stem}-{content}.{kind}"
