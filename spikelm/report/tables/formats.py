"""A table on the terminal and as Markdown, LaTeX, CSV and JSON.

Ours, the paper's and the difference stand below each other; a table of ours alone has one line for each row.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from spikelm.report.query.output import writable
from spikelm.report.tables.cells import Cell, Line, TableData, cell_dict, letter, mark
from spikelm.store.atomic import write_atomic

THREE = ("ours", "paper", "difference")
TAKE_NO_PART = "Plain models take no part: they are what the spiking and low-bit ones are measured against."
STAR = "*"  # before the best of a column where nothing can be bold
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
    if data.ours_only:
        return f"{data.title[0].upper()}{data.title[1:]}, at {data.where}"
    return f"Table {data.id}: {data.title}. Ours at {data.where}"


def rows_of(data: TableData, texts: Mapping[str, Callable[[Cell], str]]) -> list[list[str]]:
    """The rows of a table, their cells as `texts` writes them: ours alone, or three for each system."""
    if data.ours_only:
        return [[line.name, *map(texts["ours"], line.cells.values())] for line in data.lines]
    return [
        [line.name if which == "ours" else "", which, *map(texts[which], line.cells.values())]
        for line in data.lines
        for which in THREE
    ]


def headings_of(data: TableData) -> list[str]:
    """The headings of these rows."""
    return ["system", *([] if data.ours_only else [""]), *data.columns.values()]


def markdown(data: TableData, store: str = "..") -> str:
    """Cells of one run link to it in the store; those of several to the list of runs below."""
    rows = rows_of(
        data,
        {
            "ours": lambda cell: _linked(cell, store) + (mark(cell.footnotes) if data.ours_only else ""),
            "paper": lambda cell: cell.paper_text + mark(cell.footnotes),
            "difference": lambda cell: cell.difference_text,
        },
    )
    parts = [f"# {heading(data)}", "", *markdown_table(headings_of(data), rows), ""]
    parts += [f"- <sup>{letter(place)}</sup> {text}" for place, text in enumerate(data.footnotes)]
    parts += [f"- {note}" for note in (*remarks(data), *state_of(data))]
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


def remarks(data: TableData, best: str = "Bold") -> list[str]:
    """What is to be said of the whole table to its readers; `best` says how the best of a column is marked."""
    cells = [cell for line in data.lines for cell in line.cells.values()]
    said = [*data.notes, *([data.computed_from] if data.computed_from else [])]
    if any(cell.best for cell in cells):
        lowest = _listed(["energies", *(data.columns[name] for name in data.lowest if "energy" not in name)])
        said.append(f"{best} is the best of a column, of {lowest} the lowest. {TAKE_NO_PART}")
    share = next((cell.share for cell in cells if cell.share), "")
    return [*said, *([f"{share} after a number says how many of the seeds it comes from."] if share else [])]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def state_of(data: TableData) -> list[str]:
    """What is missing, for who makes the table, not for its readers; nothing where all its runs are there."""
    if not data.missing:
        return []
    without = "rows without any are left out" if data.ours_only else "cells without any are empty"
    if any(cell.not_run for line in data.lines for cell in line.cells.values()):
        without = "rows without any say so"
    return [f"Runs that are missing: {len(data.missing)}; {without}."]


def _linked(cell: Cell, store: str) -> str:
    if not cell.runs:
        return cell.ours_text
    target = link(store, cell.runs[0][1]) if len(cell.runs) == 1 else "#runs"
    linked = f"[{cell.ours_text}]({target})"
    return f"**{linked}**" if cell.best else linked


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
    rows = _latex_rows(data)
    paper = "landscape," if len(data.lines) < TALL else ""
    notes = [rf"\textsuperscript{{{letter(n)}}}~{latex_text(text)}" for n, text in enumerate(data.footnotes)]
    below = r"\par\smallskip ".join([*notes, *map(latex_text, remarks(data))])
    words = "" if data.ours_only else "l"
    caption = heading(data) if data.ours_only else f"{data.title}. Ours at {data.where}"
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage{booktabs,graphicx}",
            rf"\usepackage[a4paper,{paper}margin=1.5cm]{{geometry}}",
            r"\begin{document}",
            *([rf"\setcounter{{table}}{{{data.id - 1}}}"] if isinstance(data.id, int) and not data.ours_only else []),
            *(f"% {line}" for line in state_of(data)),
            "% --- the table ---",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}.}}",
            r"\smallskip",  # a caption above the table would touch its first rule
            rf"\label{{tab:spikelm-{data.id}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{words}{'r' * len(data.columns)}}}",
            r"\toprule",
            _latex_row([latex_text(text) for text in headings_of(data)]),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            *([rf"\par\medskip\begin{{minipage}}{{\linewidth}}\footnotesize {below}\end{{minipage}}"] if below else []),
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


def _latex_rows(data: TableData) -> list[str]:
    """The lines of the tabular, with some space between two systems."""
    texts: dict[str, Callable[[Cell], str]] = {
        "ours": lambda cell: _bold(cell) + (_raised(cell) if data.ours_only else ""),
        "paper": lambda cell: latex_text(cell.paper_text) + _raised(cell),
        "difference": lambda cell: _small(latex_text(cell.difference_text)),
    }
    words = 1 if data.ours_only else 2  # of a row: its name, and which of the three it is
    rows: list[str] = []
    for row in rows_of(data, texts):
        if rows and not data.ours_only and row[1] == THREE[0]:
            rows.append(r"\addlinespace")
        rows.append(_latex_row([latex_text(row[0]), *(rf"\textit{{{which}}}" for which in row[1:words]), *row[words:]]))
    return rows


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _bold(cell: Cell) -> str:
    text = latex_text(cell.ours_text)
    return rf"\textbf{{{text}}}" if cell.best else text


def _raised(cell: Cell) -> str:
    letters = ",".join(letter(place) for place in cell.footnotes)
    return rf"\textsuperscript{{{letters}}}" if letters else ""


def _small(text: str) -> str:
    return rf"{{\footnotesize {text}}}" if text else ""


def comma_separated(data: TableData) -> str:
    """One line for each cell: where it is, ours with its spread and runs, and the paper's with the difference."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ["ours", "deviation", "seeds", "best", *([] if data.ours_only else ["paper", "difference"]), "runs"]
    writer.writerow(["table", "scale", "source", "row", "system", "column", *names])
    for line in data.lines:
        for column, cell in line.cells.items():
            record = cell_dict(cell)
            known = {**record, "seeds": len(cell.ours), "best": "best" if cell.best else "", "paper": cell.paper}
            known["runs"] = " ".join(id for id, _ in cell.runs)
            first = [data.id, data.scale, data.source, line.name, line.system, column]
            writer.writerow(["" if value is None else value for value in (*first, *(known[name] for name in names))])
    return out.getvalue()


def as_json(data: TableData) -> str:
    """Everything, for programs."""
    return json.dumps(data.to_dict(), indent=1, ensure_ascii=False) + "\n"


#: ending of a file -> what writes it
FORMATS = {"md": markdown, "tex": latex, "csv": comma_separated, "json": as_json}


def show_table(data: TableData, console: Console | None = None) -> None:
    """Print it; off a terminal, where nothing is bold, the best of a column has a star."""
    console = console or Console()
    bold = console.is_terminal
    rows = rows_of(
        data,
        {
            "ours": lambda cell: _best(cell.ours_text + (mark(cell.footnotes) if data.ours_only else ""), cell, bold),
            "paper": lambda cell: escape(cell.paper_text + mark(cell.footnotes)),
            "difference": lambda cell: escape(cell.difference_text),
        },
    )
    console.print(heading(data), soft_wrap=True, highlight=False, markup=False)
    print_columns(headings_of(data), rows, len(headings_of(data)) - len(data.columns), console)
    for place, text in enumerate(data.footnotes):
        console.print(f"  {letter(place)}: {text}", soft_wrap=True, highlight=False, markup=False)
    for note in (*remarks(data, "Bold" if bold else f"A number after {STAR}"), *state_of(data)):
        console.print(f"  note: {note}", soft_wrap=True, highlight=False, markup=False)


def _best(text: str, cell: Cell, bold: bool) -> str:
    if not cell.best:
        return escape(text)
    return f"[bold]{escape(text)}[/bold]" if bold else escape(f"{STAR}{text}")


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int, console: Console) -> None:
    """Rows on a terminal, with the columns that do not fit below the others; the first `words` of a row name it."""
    for places in _blocks([headings, *rows], words, console.width):
        shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for place in places:
            shown.add_column(headings[place], justify="left" if place < words else "right", no_wrap=True)
        for row in rows:
            shown.add_row(*(row[place] for place in places), end_section=words > 1 and row[1] == THREE[-1])
        console.print(shown)


def _blocks(rows: Sequence[Sequence[str]], words: int, width: int) -> list[list[int]]:
    """Which columns are printed side by side; the first ones, which say what a row is, begin every block."""
    widths = [max(Text.from_markup(row[place]).cell_len for row in rows) + 2 for place in range(len(rows[0]))]
    first = list(range(words))
    blocks = [[*first]]
    for place in range(words, len(widths)):
        if len(blocks[-1]) > words and sum(widths[one] for one in (*blocks[-1], place)) > width:
            blocks.append([*first])
        blocks[-1].append(place)
    return blocks


def write_table(data: TableData, to: Path, store: Path | None = None) -> list[Path]:
    """Write it in every format to tables/ of a folder; its links go to the store, where that is another folder."""
    folder = writable(to / "tables")
    linked = partial(markdown, store=os.path.relpath(store or to, folder))
    paths = []
    for ending, text_of in FORMATS.items():
        paths.append(folder / f"{data.name}.{ending}")
        write_atomic(paths[-1], linked(data) if ending == "md" else text_of(data))
    return paths
