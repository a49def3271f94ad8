"""Figures of the paper: one YAML each in conf/figure, drawn from the runs of a selection."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.report.figures.style import dark, styled
from spikelm.report.query.output import writable
from spikelm.report.query.selection import Results, SelectedRun, Selection, Wanted
from spikelm.report.tables.paper_table import OWN_TABLES, load_table
from spikelm.store.atomic import plain, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]  # what is drawn, ready for JSON
SOURCES = {"embedded": "embedded micro-world", "local": "local data", "hub": "data of the hub"}
#: figures that show what the paper does, its own in its order; and those of our own tables
OWN_FIGURES = sorted(path.stem for path in (config_dir() / "figure").glob("*.yaml") if path.stem in OWN_TABLES)
FIGURES = sorted(path.stem for path in (config_dir() / "figure").glob("*.yaml") if path.stem not in OWN_TABLES)


@dataclass(frozen=True)
class Series:
    """A line or panel of a figure: a system's run."""

    name: str
    system: str
    task: str = "pretrain"
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """A column of a table as one axis of a figure; `{data}` in its name is the micro-world, or GLUE."""

    column: str
    name: str


@dataclass(frozen=True)
class PaperFigure:
    """A figure: what it shows, the runs it is drawn from and the function that draws it."""

    id: str
    title: str
    section: str
    draw: str  # module:function below spikelm.report.figures
    caption: str = ""
    series: tuple[Series, ...] = ()
    widths: dict[str, list[int]] = field(default_factory=dict)  # scale -> hidden sizes of a series over width
    table: int | str | None = None  # the table whose runs it is drawn from
    energy: Shown = Shown("energy_fp32", "mJ of one inference (fp32)")  # of a figure of score against energy
    score: Shown = Shown("avg", "average of nine {data} scores")

    @property
    def label(self) -> str:
        return f"figure {self.id.removeprefix('fig')}"

    def heading(self, selection: Selection) -> str:
        """What stands in the picture itself, which may be shown without its caption: the title, scale and source."""
        source = SOURCES.get(selection.source_name, selection.source_name)
        seeds = f"seed{'s' if len(selection.seeds) > 1 else ''} {', '.join(map(str, selection.seeds))}"
        where = ", ".join([f"scale {selection.scale}", source, *selection.extra, seeds])
        return f"{self.title[0].upper()}{self.title[1:]}\nours at {where}"


@dataclass(frozen=True)
class Drawn:
    """A figure: None where nothing of it can be drawn yet; the runs it was made of and those that are missing."""

    id: str
    title: str
    caption: str  # with scale and source
    figure: Figure | None
    runs: tuple[str, ...] = ()  # ids
    missing: tuple[str, ...] = ()  # commands of the runs that are not finished
    data: Numbers = field(default_factory=dict)
    name: str = ""  # of its files


@dataclass(frozen=True)
class Drawing:
    """What a draw function gives back."""

    figure: Figure | None = None  # None where nothing can be drawn yet
    data: Numbers = field(default_factory=dict)
    remark: str = ""  # for the caption


Runs = Mapping[Series, SelectedRun]  # the finished runs of a figure
#: what draws: from the figure, its finished runs and the selection's results
Draw = Callable[[PaperFigure, Runs, Results], Drawing]


def load_figure(id: str) -> PaperFigure:
    """A figure by its name: fig4 (or 4), energy, field, decoders."""
    name = f"fig{id}" if id.isdigit() else id
    if name not in (*FIGURES, *OWN_FIGURES):
        raise ConfigError(f"there is no figure {id}", f"figures: {', '.join((*FIGURES, *OWN_FIGURES))}")
    raw = yaml.safe_load((config_dir() / "figure" / f"{name}.yaml").read_text())
    series = tuple(Series(**{**one, "extra": tuple(one.get("extra", ()))}) for one in raw.pop("series", []))
    raw |= {axis: Shown(**raw[axis]) for axis in ("energy", "score") if axis in raw}
    return PaperFigure(id=name, series=series, **raw)


def series_of(figure: PaperFigure, results: Results) -> list[Series]:
    """Its series at the selection's scale: of a figure over width one for each size."""
    if not figure.widths:
        return list(figure.series)
    sizes = figure.widths.get(results.selection.scale, [])
    return [
        Series(f"{one.name}, width {size}", one.system, one.task, (*one.extra, *_sizes(size)))
        for one in figure.series
        for size in sizes
    ]


def _sizes(hidden: int) -> tuple[str, ...]:
    """BERT's proportions: an FFN of four times the width, heads of 64 where it is wide enough, else eight."""
    heads = hidden // 64 if hidden % 64 == 0 and hidden >= 128 else 8
    return f"backbone.hidden={hidden}", f"backbone.intermediate={4 * hidden}", f"backbone.heads={heads}"


def figure_runs(figure: PaperFigure, results: Results) -> list[Wanted]:
    """The runs that a figure is drawn from, as far as this scale has them."""
    if figure.table is not None:
        from spikelm.report.tables.build import table_runs

        return table_runs(load_table(figure.table), results)
    return [run.wanted for run in _selected(figure, results)[0].values()]


def _selected(figure: PaperFigure, results: Results) -> tuple[dict[Series, SelectedRun], str]:
    """The runs of its series, and why some cannot be at this scale."""
    runs: dict[Series, SelectedRun] = {}
    why = ""
    for one in series_of(figure, results):
        try:
            runs[one] = results.find(one.system, one.task, extra=one.extra)
        except ConfigError as error:  # pretraining where the weights are given
            why = f"{one.name} cannot be run at scale {results.selection.scale}: {error.what}."
    if figure.widths and not runs and not why:
        why = f"It has no widths for scale {results.selection.scale}."
    return runs, why


def draw_figure(id: str, results: Results) -> Drawn:
    """Draw what the finished runs allow; runs that are missing are named with their commands."""
    figure = load_figure(id)
    module, _, name = figure.draw.partition(":")
    draw: Draw = getattr(import_module(f"spikelm.report.figures.{module}"), name)
    selected, why = _selected(figure, results)
    finished = {one: run for one, run in selected.items() if run.result is not None}
    with styled():
        drawing = draw(figure, finished, results)
    wanted = figure_runs(figure, results)
    runs = [results.find(*one) for one in wanted]
    words = [figure.caption, drawing.remark, why, f"Ours at {results.selection.where}."]
    return Drawn(
        id=figure.id,
        title=f"{_named(figure)} ({figure.section})",
        caption=" ".join(filter(None, words)),
        figure=drawing.figure,
        runs=tuple(dict.fromkeys(run.run.id for run in runs if run.result)) if drawing.figure is not None else (),
        missing=tuple(run.wanted.command(results.selection) for run in runs if run.result is None),
        data=drawing.data,
        name=f"{figure.id}-{results.selection.suffix}",
    )


def _named(figure: PaperFigure) -> str:
    """Its title, behind its number where the paper has given it one."""
    title = f"{figure.label}: {figure.title}" if figure.id.startswith("fig") else figure.title
    return f"{title[0].upper()}{title[1:]}"


def write_figure(drawn: Drawn, to: Path) -> list[Path]:
    """PNG, PDF, SVG and a dark SVG in figures/ of a folder, and JSON with the numbers, the runs and what is missing."""
    import matplotlib.pyplot as plt

    if drawn.figure is None:
        return []
    folder = writable(to / "figures")
    paths = [folder / f"{drawn.name}{ending}" for ending in (".png", ".pdf", ".svg", "-dark.svg")]
    with styled():
        drawn.figure.savefig(paths[0], dpi=200)
        drawn.figure.savefig(paths[1], metadata={"CreationDate": None})
        drawn.figure.savefig(paths[2], metadata={"Date": None})
        see_through = StringIO()
        drawn.figure.savefig(see_through, format="svg", metadata={"Date": None}, transparent=True)
        write_atomic(paths[3], dark(see_through.getvalue()))
    plt.close(drawn.figure)
    record = {key: getattr(drawn, key) for key in ("id", "title", "caption", "runs", "missing", "data")}
    paths.append(folder / f"{drawn.name}.json")
    write_atomic(paths[-1], json.dumps(plain(record), indent=1, ensure_ascii=False) + "\n")
    return paths
