"""A table on the terminal and as Markdown, LaTeX, CSV and JSON: ours, the paper's, the difference below each other."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spikelm.report.query.output import writable
from spikelm.report.tables.cells import Cell, Line, TableData, letter, mark
from spikelm.store.atomic import write_atomic

THREE = ("ours", "paper", "difference")
TALL = 9  # rows that do not fit on a page on its side
#: what LaTeX would take for a command
LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "…": r"\dots{}",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "<": r"$<$",
    ">": r"$>$",
    "α": r"$\alpha$",
    "|": r"$|$",
    '"': "''",
}


def heading(data: TableData) -> str:
    """The title with what it was made at."""
    return f"Table {data.id}: {data.title}. Ours at {data.where}"


def markdown(data: TableData, store: str = "..") -> str:
    """Cells of one run link to it in the store; those of several to the list of runs below."""
    rows = []
    for line in data.lines:
        texts = {"ours": [_linked(cell, store) for cell in line.cells.values()]}
        texts["paper"] = [cell.paper_text + mark(cell.footnotes) for cell in line.cells.values()]
        texts["difference"] = [cell.difference_text for cell in line.cells.values()]
        rows += [[line.name if which == "ours" else "", which, *texts[which]] for which in THREE]
    parts = [f"# {heading(data)}", "", *markdown_table(["system", "", *data.columns.values()], rows), ""]
    parts += [f"- <sup>{letter(place)}</sup> {text}" for place, text in enumerate(data.footnotes)]
    parts += [f"- {note}" for note in remarks(data)]
    runs = {run for line in data.lines for cell in line.cells.values() for run in cell.runs}
    if runs:
        parts += [
            "",
            "## Runs",
            "",
            *(_run_lines(line, store) for line in data.lines if any(c.runs for c in line.cells.values())),
        ]
    if data.missing:
        parts += ["", f"## Not run ({len(data.missing)})", "", *(f"- `{command}`" for command in data.missing)]
    return "\n".join([*parts, ""])


def remarks(data: TableData) -> list[str]:
    """What is to be said of the whole table."""
    has_runs = any(cell.runs for line in data.lines for cell in line.cells.values())
    state = "All its runs are there." if has_runs else "Nothing of it was run."
    if data.missing:
        partial = any(cell.lacking for line in data.lines for cell in line.cells.values())
        seeds = " A cell without all of its seeds says how many it has." if partial else ""
        state = f"Runs that are missing: {len(data.missing)}. Cells without any are empty.{seeds}"
    return [*data.notes, *([data.computed_from] if data.computed_from else []), state]


def _linked(cell: Cell, store: str) -> str:
    if not cell.runs:
        return ""
    target = link(store, cell.runs[0][1]) if len(cell.runs) == 1 else "#runs"
    return f"[{cell.ours_text}]({target})"


def link(store: str, directory: str) -> str:
    """From the file of a table to a run's result."""
    return f"{store}/{directory}/result.json"


def _run_lines(line: Line, store: str) -> str:
    runs = dict.fromkeys(run for cell in line.cells.values() for run in cell.runs)
    links = [f"{directory.partition('/')[0]} [{id[:8]}]({link(store, directory)})" for id, directory in runs]
    return f"- {line.name}{f' (`system={line.system}`)' if line.system else ''}: {', '.join(links)}"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [_line(headings), _line(["---"] * len(headings)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def latex(data: TableData) -> str:
    """A document of its own with one booktabs table, which may as well be \\input: between the two marked lines."""
    columns = list(data.columns)
    rows = []
    for line in data.lines:
        cells = [line.cells[column] for column in columns]
        rows += [
            _latex_row(line.name, "ours", [latex_text(cell.ours_text) for cell in cells]),
            _latex_row("", "paper", [_noted(cell) for cell in cells]),
            _latex_row("", "difference", [_small(latex_text(cell.difference_text)) for cell in cells]),
            r"\addlinespace",
        ]
    paper = "landscape," if len(data.lines) < TALL else ""
    notes = [rf"\textsuperscript{{{letter(n)}}}~{latex_text(text)}" for n, text in enumerate(data.footnotes)]
    below = r"\par\smallskip ".join([*notes, *map(latex_text, remarks(data))])
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage{booktabs,graphicx}",
            rf"\usepackage[a4paper,{paper}margin=1.5cm]{{geometry}}",
            r"\begin{document}",
            rf"\setcounter{{table}}{{{data.id - 1}}}",
            "% --- the table ---",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(data.title)}. Ours at {latex_text(data.where)}.}}",
            r"\smallskip",  # a caption above the table would touch its first rule
            rf"\label{{tab:spikelm-{data.id}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{ll{'r' * len(columns)}}}",
            r"\toprule",
            _latex_row("system", "", [latex_text(text) for text in data.columns.values()]),
            r"\midrule",
            *rows[:-1],
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\par\medskip\begin{{minipage}}{{\linewidth}}\footnotesize {below}\end{{minipage}}",
            r"\end{table}",
            "% --- end of the table ---",
            r"\end{document}",
            "",
        ]
    )


def latex_text(text: str) -> str:
    """`text` with all that LaTeX would take for a command; alpha in the levels of spikes is the letter."""
    escaped = "".join(LATEX.get(sign, sign) for sign in text)
    if "{" not in text:
        return escaped
    return re.sub(r"(-?)\balpha\b", lambda sign: rf"${sign[1]}\alpha$", escaped)


def _latex_row(name: str, which: str, cells: Sequence[str]) -> str:
    return " & ".join([latex_text(name), rf"\textit{{{which}}}" if which else "", *cells]) + r" \\"


def _noted(cell: Cell) -> str:
    letters = ",".join(letter(place) for place in cell.footnotes)
    return latex_text(cell.paper_text) + (rf"\textsuperscript{{{letters}}}" if letters else "")


def _small(text: str) -> str:
    return rf"{{\footnotesize {text}}}" if text else ""


def comma_separated(data: TableData) -> str:
    """One line per cell: table, scale, source, row, system, column, ours, deviation, seeds, paper, difference, runs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("ours", "deviation", "seeds", "paper", "difference", "runs")
    writer.writerow(["table", "scale", "source", "row", "system", "column", *names])
    for line in data.lines:
        for column, cell in line.cells.items():
            ours = "" if not cell.ours else cell.mean if cell.mean is not None else cell.ours[0]
            values = [
                ours,
                cell.deviation,
                len(cell.ours),
                cell.paper,
                cell.difference,
                " ".join(i for i, _ in cell.runs),
            ]
            first = [data.id, data.scale, data.source, line.name, line.system, column]
            writer.writerow(["" if value is None else value for value in (*first, *values)])
    return out.getvalue()


def as_json(data: TableData) -> str:
    """Everything, for programs."""
    return json.dumps(data.to_dict(), indent=1, ensure_ascii=False) + "\n"


#: ending of a file -> what writes it
FORMATS = {"md": markdown, "tex": latex, "csv": comma_separated, "json": as_json}


def show_table(data: TableData, console: Console | None = None) -> None:
    """Print it: three lines per row (ours, the paper's, the difference)."""
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


def write_table(data: TableData, to: Path, store: Path | None = None) -> list[Path]:
    """Write it in every format to tables/ of a folder; its links go to the store, where that is another folder."""
    folder = writable(to / "tables")
    linked = partial(markdown, store=os.path.relpath(store or to, folder))
    paths = []
    for ending, text_of in FORMATS.items():
        paths.append(folder / f"{data.name}.{ending}")
        write_atomic(paths[-1], linked(data) if ending == "md" else text_of(data))
    return paths
